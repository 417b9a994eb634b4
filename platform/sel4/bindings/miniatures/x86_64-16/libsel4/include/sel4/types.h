typedef seL4_Word seL4_NodeId;
typedef seL4_Word seL4_Domain;

typedef seL4_CPtr seL4_CNode;
typedef seL4_CPtr seL4_TCB;
typedef seL4_CPtr seL4_Untyped;
