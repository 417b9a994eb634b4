//! Refusals of scenarios that contradict themselves, with the place and the mend.

use super::*;

#[test]
fn orders_to_several_policy_components_are_refused() {
    let two = |acts: &str| {
        let more = "[[controller]]\nname = \"spare\"\n[[controller.namespace]]\nsize = \"1M\"";
        refusal("size = \"1M\"", &format!("size = \"1M\"\n{more}\n[control]\nacts = [{acts}]"))
    };
    let refused = two("\"kill\", \"rights\"");
    assert!(refused.contains("[control] has the act `rights` beside 2 controllers"), "{refused}");
    assert!(!two("\"kill\", \"pause\"").contains("[control]"));
}

#[test]
fn contradictions_are_refused_with_the_place_and_the_fix() {
    let cases = [
        (
            "first = 1024",
            "first = 1000",
            "good.toml:21: tenant `bob` has an extent at block 1000 that overlaps one of tenant `alice`",
        ),
        (
            "depth = 8",
            "depth = 8\ncompletion = \"sleep-then-poll\"",
            "good.toml:12: tenant `alice` sleeps until a completion is due but may ask for no alarm: write `alarm = true`",
        ),
        (
            "depth = 8",
            "depth = 8\ncompletion = \"automatic\"\nmeasure = \"read\"",
            "good.toml:12: tenant `alice` measures `read` on the bare ring, where no request chooses its completion",
        ),
        ("queue_pairs = 2", "queue_pairs = 0", "good.toml:12: tenant `alice` has no queue pairs"),
        (
            "size = \"1M\"",
            "size = \"1M\"\nmodel = { inactive = true }",
            "good.toml:13: tenant `alice` names namespace 1 of `disk`, which is inactive: name another one",
        ),
        ("queue_pairs = 2\n", "", "good.toml:12: tenant `alice` has no queue pairs"),
        (
            "name = \"bob\"",
            "name = \"bob\"\ncore = 1",
            "good.toml:21: tenant `bob` is on core 1 but queue pairs are not",
        ),
        (
            "queue_pairs = 4",
            "queue_pairs = 3",
            "good.toml:21: tenant `bob` wants 2 queue pairs but controller `disk` has 1 of 3 left",
        ),
        ("first = 1024", "first = 1025", "an extent up to block 2049 but namespace 1 has 2048 blocks"),
        (
            "name = \"bob\"",
            "name = \"bob\"\nwindow = \"64K\"\ndepth = 8",
            "keeps 4 requests in flight that take 65536 bytes of window each but has a window of 65536 bytes: give it \
             262144",
        ),
        (
            "name = \"bob\"",
            "name = \"bob\"\ncontroller = \"tape\"",
            "names the controller `tape`, which is not there: name one of disk",
        ),
        ("name = \"bob\"", "name = \"bob\"\nnamespace = 2", "names namespace 2 but `disk` has 1 to 1"),
        ("name = \"bob\"", "name = \"bob\"\nnamespace = 0", "names namespace 0"),
        ("name = \"bob\"", "name = \"bob\"\nring_entries = 48", "has 48 ring entries: make it a power of two"),
        ("name = \"bob\"", "name = \"alice\"", "tenant `alice` is there twice"),
        ("name = \"bob\"", "name = \"Bob\"", "rename it"),
        ("name = \"bob\"", "name = \"nvme-server-x\"", "is a system component's"),
        (
            "name = \"alice\"",
            "name = \"alice\"\ncompletion = \"polled\"\npriority = 100",
            "is polled at priority 100 while its server runs at 120",
        ),
        ("depth = 8", "depth = 8\nblock_bytes = 1000", "no multiple of the namespace's blocks of 512 bytes"),
        ("depth = 8", "depth = 8\nblock_bytes = 0", "block_bytes = 0"),
        ("depth = 8", "depth = 8\nblock_bytes = 131072\nsegments = 5", "take 163840 bytes of window each"),
        ("depth = 8", "depth = 8\nmisalign_bytes = 4096", "a multiple of 4 below 4096"),
        ("depth = 8", "depth = 65", "keeps 65 requests in flight but has 64 ring entries"),
        ("depth = 8", "operations = 0", "never ends"),
        ("name = \"bob\"", "name = \"bob\"\nweight = 0", "good.toml:21: tenant `bob` has weight 0: give it 1 to 65535"),
        (
            "name = \"bob\"",
            "name = \"bob\"\nhighest_class = \"low\"",
            "tenant `bob` has class `medium` above its highest_class `low`",
        ),
        (
            "name = \"bob\"",
            "name = \"bob\"\niops = { per_second = 0, burst = 8 }",
            "has iops of 0 per_second and a burst of 8, under which no request passes: give both at least 1",
        ),
        (
            "name = \"bob\"",
            "name = \"bob\"\nbandwidth = { per_second = \"1M\", burst = 4095 }",
            "has bandwidth of 1048576 per_second and a burst of 4095, under which no request passes: give both at \
             least 4096",
        ),
        (
            "name = \"bob\"",
            "name = \"bob\"\nbandwidth = { per_second = \"fast\", burst = \"4K\" }",
            "`fast` is no size",
        ),
        (
            "[[controller]]",
            "[server]\nclass_weights = { low = 0 }\n[[controller]]",
            "[server] class_weights has low = 0: give it 1 to 256",
        ),
        (
            "[[controller]]",
            "[server]\nclass_weights = { high = 257 }\n[[controller]]",
            "[server] class_weights has high = 257: give it 1 to 256",
        ),
        (
            "[[controller]]",
            "[server]\npolicy = \"fair\"\n[[controller]]",
            "unknown value `fair`: write one of round-robin, dedicated, weighted, device-direct, paced",
        ),
        (
            "[[controller]]",
            "[server]\npolicy = \"device-direct\"\n[[controller]]",
            "tenant `alice` has 2 queue pairs where [server] policy is device-direct: give it `queue_pairs = 3`, one of each \
             speed",
        ),
        (
            "[[controller]]",
            "[server]\npolicy = \"device-direct\"\nqueues = { per-core = { cores = 1, depth = 8 } }\n[[controller]]",
            "needs queue pairs of each tenant's own: take [server] queues away, or name another policy",
        ),
        ("size = \"1M\"", "size = \"1000\"", "multiple of 4096"),
        (
            "size = \"1M\"",
            "size = \"1M\"\nblock_bytes = 1000",
            "blocks of 1000 bytes: write a power of two, 512 to 65536",
        ),
        ("size = \"1M\"", "size = \"1M\"\nblock_bytes = 131072", "blocks of 131072 bytes: write a power of two"),
        ("size = \"1M\"", "size = \"1028K\"\nblock_bytes = 8192", "make it a multiple of 8192"),
        ("size = \"1M\"", "size = \"1M\"\nmodel = { formats = 65 }", "has 65 formats: give it 1 to 64"),
        ("size = \"1M\"", "size = \"1M\"\nmodel = { formats = 0 }", "has 0 formats: give it 1 to 64"),
        (
            "size = \"1M\"",
            "size = \"1M\"\nmodel = { formats = 16, format_index = 16 }",
            "namespace 1 of `disk` has format 16 of 16 formats: give it formats = 17 or more",
        ),
        (
            "size = \"1M\"",
            "size = \"1M\"\nmodel = { metadata = 7, protection = 1 }",
            "protection of type 1 in 7 bytes of metadata: give it type 1 to 3, and metadata = 8 or more",
        ),
        ("size = \"1M\"", "size = \"1M\"\nmodel = { metadata = 8, protection = 4 }", "give it type 1 to 3"),
        ("size = \"1M\"", "size = \"1 MB\"", "is no size"),
        (
            "size = \"1M\"",
            "size = \"1073741825G\"",
            "namespace 1 of `disk` has 1152921505680588800 bytes: give it \"1073741824G\" at most",
        ),
        (
            "name = \"disk\"",
            "name = \"disk\"\nmodel = { doorbell_stride = 11 }",
            "a doorbell_stride of 11: give it 0 to 10",
        ),
        ("name = \"disk\"", "name = \"disk\"\nmodel = { queue_entries = 1 }", "queue_entries 1: give it 2 to 65536"),
        ("name = \"disk\"", "name = \"disk\"\nvectors = 2049", "controller `disk` has 2049 vectors: give it 1 to 2048"),
        ("name = \"disk\"", "name = \"disk\"\nmemory_buffer = \"3M\"", "make it a power of two from 1M on"),
        (
            "name = \"disk\"",
            "name = \"disk\"\nattach = \"root-port\"\nvirtual_functions = 1\nmemory_buffer = \"1M\"",
            "good.toml:5: controller `disk` has virtual functions and a memory_buffer, of which QEMU's has one at most",
        ),
        (
            "name = \"disk\"",
            "name = \"disk\"\nmemory_buffer = \"512M\"",
            "good.toml:5: controller `disk` and those before it have registers and buffers of 512 MiB, and the PCI window has \
             room for 512: make them smaller",
        ),
        (
            "name = \"disk\"",
            "name = \"disk\"\nsaved = [{ feature = 2, value = 0 }]",
            "good.toml:5: controller `disk` has a value of feature 2 saved, which it does not save",
        ),
        ("name = \"disk\"", "name = \"disk\"\nmodel = { soft_reset = true }", "soft_reset and nothing in D3hot"),
        ("[[controller]]", "[control]\n[[controller]]", "[control] has no `acts`: name some of shares, rights"),
        ("[[controller]]", "[control]\nacts = [\"kill\", \"kill\"]\n[[controller]]", "has the act `kill` twice"),
        (
            "[[controller]]",
            "[control]\nadministration = [\"io\", \"io\"]\n[[controller]]",
            "has the right `io` of `administration` twice",
        ),
        (
            "[[controller]]",
            "[control]\nadministration = [\"io\"]\n[expect]\ncompare_image = true\n[[controller]]",
            "and the disk is compared with the tenants' writes: remove these rights",
        ),
        (
            "name = \"disk\"",
            "name = \"disk\"\nattach = \"root\"\nmodel = { bridges_d3hot = true }",
            "bridges_d3hot and no bridge above it: attach it to a root-port",
        ),
        (
            "name = \"disk\"",
            "name = \"disk\"\nhot_plug = true\nmodel = { d3hot = true }",
            "comes and goes, which takes its power",
        ),
        (
            "name = \"alice\"",
            "name = \"alice\"\nwindow = \"257M\"",
            "good.toml:12: tenant `alice` has a window of 269484032 bytes: make it a multiple of 4096 up to 256M",
        ),
        (
            "name = \"alice\"",
            "name = \"alice\"\nwindow = \"256M\"",
            "good.toml:12: tenant `alice` and those before it need ",
        ),
        (
            "name = \"disk\"",
            "name = \"disk\"\nmodel = { fetch_ns = 1000001 }",
            "a fetch_ns of 1000001: give it 1 to 1000000",
        ),
        (
            "name = \"disk\"",
            "name = \"disk\"\nmodel = { outstanding = 0 }",
            "controller `disk` has outstanding 0: give it 1 to 65535",
        ),
        (
            "name = \"disk\"",
            "name = \"disk\"\nmodel = { timeout_ms = 128000 }",
            "a timeout_ms of 128000: give it a multiple of 500, up to 127500",
        ),
        (
            "name = \"disk\"",
            "name = \"disk\"\nmodel = { timeout_ms = 700 }",
            "a timeout_ms of 700: give it a multiple of 500",
        ),
        ("name = \"disk\"", "name = \"disk\"\nmodel = { dmrsl = 8 }", "cannot state before version 2.0"),
        ("name = \"disk\"", "name = \"disk\"\nmodel = { vsl = 11, version = \"2.0\" }", "a vsl of 11: give it 1 to 10"),
        (
            "name = \"disk\"",
            "name = \"disk\"\nmodel = { wzsl = 11, version = \"2.0\" }",
            "a wzsl of 11: give it 1 to 10",
        ),
        (
            "name = \"disk\"",
            "name = \"disk\"\nmodel = { retry_delays = [1, 0, 0], version = \"1.3\" }",
            "cannot state them before version 1.4",
        ),
        (
            "name = \"disk\"",
            "name = \"disk\"\nmodel = { ready_ms = 7501 }",
            "a ready_ms of 7501: give it at most its timeout_ms, 7500",
        ),
        (
            "name = \"disk\"",
            "name = \"disk\"\nmodel = { version = \"1.3\", purpose = \"discovery\" }",
            "has a purpose and cannot say so before version 1.4: give it version = \"1.4\"",
        ),
        (
            "name = \"disk\"",
            "name = \"disk\"\nattach = \"root\"\nmodel = { ghosts = true }",
            "has ghosts and no port of its own above it: attach it to a root-port or switch",
        ),
        (
            "name = \"disk\"\nqueue_pairs = 4\n\n[[controller.namespace]]",
            "name = \"disk\"\nqueue_pairs = 4\nmodel = { version = \"1.2\" }\n\n[[controller.namespace]]\nmodel = { command_set = \"zoned\" }",
            "cannot say so before version 1.3: give it version = \"2.0\"",
        ),
        (
            "name = \"disk\"",
            "name = \"disk\"\nmodel = { arbitration = \"fair\" }",
            "write one of round-robin, weighted-round-robin",
        ),
        ("size = \"1M\"", "size = \"1M\"\nmedia_errors = [2048]", "media error on block 2048 but only 2048 blocks"),
        (
            "program.name = \"digest\"\n[tenant.program.config]",
            "program.name = \"digest\"\n[tenant.program.config]\nfirst_byte = 100",
            "align it",
        ),
        (
            "[{ first = 1024, blocks = 1024 }]",
            "[{ first = 1024, blocks = 512 }, { first = 1536, blocks = 512 }]",
            "tenant `bob` digests 2 extents, and a digest is over one range of the disk: give it one extent",
        ),
    ];
    for (old, new, expected) in cases {
        let refusal = refusal(old, new);
        assert!(refusal.contains(expected), "`{new}` is refused with: {refusal}");
        // Each tenant of a namespace is refused for it.
        let says = expected.split('`').max_by_key(|part| part.len()).unwrap_or_default();
        assert!(refusal.lines().all(|line| line.contains(says)), "one sentence each: {refusal}");
    }
}
