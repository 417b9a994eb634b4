/* QEMU's plugin interface, whose header is in no package of its own: the few functions used are declared here, and QEMU
 * resolves them when it loads the plugin.
 *
 * INTERFACE is the version: 1, which QEMU 7.2 has, or 7, which QEMU 11 has and where 1 is refused. They differ in the
 * functions below; `count.c` is the same for both. One file includes this.
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t plugin_id;
typedef void (*executed)(unsigned int cpu, void *data);
typedef void (*translated)(struct qemu_plugin_tb *block);

enum { NO_REGISTERS = 0 };

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *instruction);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *instruction);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *instruction, executed callback, int flags,
                                            void *data);

EXPORT int qemu_plugin_version = INTERFACE;

/* Before each execution of the instruction, the callback is called with the data. */
static void call_when_executed(struct qemu_plugin_insn *instruction, executed callback, void *data)
{
    qemu_plugin_register_vcpu_insn_exec_cb(instruction, callback, NO_REGISTERS, data);
}

static translated on_translation;

#if INTERFACE == 1

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*callback)(plugin_id id, struct qemu_plugin_tb *block));
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *instruction, int operation, void *target,
                                                uint64_t value);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *instruction);

enum { INLINE_ADD = 0 };

static void translate(plugin_id id, struct qemu_plugin_tb *block)
{
    (void)id;
    on_translation(block);
}

/* Each translated block is given to the callback before it is executed. */
static void call_when_translated(plugin_id id, translated callback)
{
    on_translation = callback;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
}

/* Each execution of the instruction adds one to the counter. */
static void count_executions(struct qemu_plugin_insn *instruction, uint64_t *counter)
{
    qemu_plugin_register_vcpu_insn_exec_inline(instruction, INLINE_ADD, counter, 1);
}

/* Copies the instruction's first bytes. */
static void copy_instruction(const struct qemu_plugin_insn *instruction, void *to, size_t bytes)
{
    memcpy(to, qemu_plugin_insn_data(instruction), bytes);
}

#else

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*callback)(struct qemu_plugin_tb *block, void *data),
                                           void *data);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *instruction, void *to, size_t bytes);

static void translate(struct qemu_plugin_tb *block, void *data)
{
    (void)data;
    on_translation(block);
}

static void call_when_translated(plugin_id id, translated callback)
{
    on_translation = callback;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate, NULL);
}

/* Adding inline needs a counter of the emulator's own here, which the histogram's cannot be. */
static void add_one(unsigned int cpu, void *counter)
{
    (void)cpu;
    ++*(uint64_t *)counter;
}

static void count_executions(struct qemu_plugin_insn *instruction, uint64_t *counter)
{
    call_when_executed(instruction, add_one, counter);
}

static void copy_instruction(const struct qemu_plugin_insn *instruction, void *to, size_t bytes)
{
    qemu_plugin_insn_data(instruction, to, bytes);
}

#endif
