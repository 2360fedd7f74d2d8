// SPDX-License-Identifier: GPL-2.0
/*
 * testib: an InfiniBand HCA without a data path, whose port says what a test
 * tells it to. It stands in for what soft-RoCE has not: link layer InfiniBand,
 * a PCI parent, PMA counters with their true widths, and a query of the port
 * that hangs below both sysfs and RDMA netlink.
 *
 *   insmod testib.ko count=2 pci=0000:01:00.0,0000:02:00.0
 *     the module binds to these functions as a driver named mlx5_core; devices
 *     beyond them have no PCI parent
 *
 *   /sys/kernel/debug/testib/<name>/
 *     state phys width speed   numbers as in enum ib_port_state, ..
 *     hold                     1: every query of the port stays in D state
 *     pma                      1: has performance counters, 0: answers EINVAL
 *     counter                  "NAME VALUE" or "NAME +N", PMA and hw alike
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_pma.h>
#include <rdma/ib_verbs.h>

#define MAX_DEVS 18
#define PMA_AT 40 /* of the data area of a performance MAD */

static int count = 1;
module_param(count, int, 0444);
static char *name = "testib%d";
module_param(name, charp, 0444);
static char *pci[MAX_DEVS];
static int npci;
module_param_array(pci, charp, &npci, 0444);

enum {
	SYMBOL, RECOVERY, DOWNED, RCV_ERR, RCV_REMPHYS, RCV_SWREL, XMIT_DISC,
	XMIT_CON, RCV_CON, LLI, BUF_OVERRUN, VL15, WAIT, XMIT_DATA, RCV_DATA,
	XMIT_PKT, RCV_PKT, N_PMA
};

static const char * const pma_names[N_PMA] = {
	"symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors",
	"port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors",
	"port_xmit_discards", "port_xmit_constraint_errors",
	"port_rcv_constraint_errors", "local_link_integrity_errors",
	"excessive_buffer_overrun_errors", "VL15_dropped", "port_xmit_wait",
	"port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets",
};

/* Index 0 as on mlx5: the name whose read starts the cache of all others. */
static const struct rdma_stat_desc hw_descs[] = {
	{ .name = "rx_write_requests" }, { .name = "rx_read_requests" },
	{ .name = "out_of_buffer" }, { .name = "out_of_sequence" },
	{ .name = "duplicate_request" }, { .name = "rnr_nak_retry_err" },
	{ .name = "packet_seq_err" }, { .name = "implied_nak_seq_err" },
	{ .name = "local_ack_timeout_err" }, { .name = "req_cqe_error" },
	{ .name = "resp_cqe_flush_error" }, { .name = "roce_adp_retrans" },
};
#define N_HW ARRAY_SIZE(hw_descs)

struct testib {
	struct ib_device ib;
	struct dentry *dir;
	u32 state, phys, width, speed, hold, pma;
	u64 pma_val[N_PMA];
	u64 hw_val[N_HW];
};

static struct testib *devs[MAX_DEVS];
static struct dentry *root;

static struct testib *to_testib(struct ib_device *ib)
{
	return container_of(ib, struct testib, ib);
}

/* As hung firmware: TASK_UNINTERRUPTIBLE, no signal ends it. */
static void wait_while_held(struct testib *t)
{
	while (READ_ONCE(t->hold))
		msleep(50);
}

static int query_device(struct ib_device *ib, struct ib_device_attr *attr, struct ib_udata *u)
{
	memset(attr, 0, sizeof(*attr));
	attr->sys_image_guid = ib->node_guid;
	attr->vendor_id = 0x02c9;
	attr->vendor_part_id = 4129;
	attr->max_pkeys = 1;
	return 0;
}

static int query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	struct testib *t = to_testib(ib);

	wait_while_held(t);
	attr->state = t->state;
	attr->phys_state = t->phys;
	attr->active_width = t->width;
	attr->active_speed = t->speed;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = IB_MTU_4096;
	attr->gid_tbl_len = 2;
	attr->pkey_tbl_len = 1;
	attr->max_msg_sz = 1 << 30;
	attr->max_vl_num = 4;
	attr->lid = t->state >= IB_PORT_INIT ? 0x10 : 0;
	attr->sm_lid = t->state >= IB_PORT_ARMED ? 1 : 0;
	attr->port_cap_flags = 0x400; /* no subnet manager here */
	return 0;
}

static int query_gid(struct ib_device *ib, u32 port, int index, union ib_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (index == 0) {
		gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ULL);
		gid->global.interface_id = ib->node_guid;
	}
	return 0;
}

static int query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *pkey)
{
	*pkey = 0xffff;
	return 0;
}

static int port_immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *im)
{
	im->gid_tbl_len = 2;
	im->pkey_tbl_len = 1;
	im->core_cap_flags = RDMA_CORE_CAP_PROT_IB;
	return 0;
}

static enum rdma_link_layer link_layer(struct ib_device *ib, u32 port)
{
	return IB_LINK_LAYER_INFINIBAND;
}

static void fw_str(struct ib_device *ib, char *str)
{
	strscpy(str, "28.41.1000", IB_FW_VERSION_NAME_MAX);
}

/* Classic error counters stick at their width's end. */
static u64 stick(struct testib *t, int i, u64 max)
{
	return min(t->pma_val[i], max);
}

static void fill_classic(struct testib *t, struct ib_pma_portcounters *c)
{
	c->symbol_error_counter = cpu_to_be16(stick(t, SYMBOL, 0xffff));
	c->link_error_recovery_counter = stick(t, RECOVERY, 0xff);
	c->link_downed_counter = stick(t, DOWNED, 0xff);
	c->port_rcv_errors = cpu_to_be16(stick(t, RCV_ERR, 0xffff));
	c->port_rcv_remphys_errors = cpu_to_be16(stick(t, RCV_REMPHYS, 0xffff));
	c->port_rcv_switch_relay_errors = cpu_to_be16(stick(t, RCV_SWREL, 0xffff));
	c->port_xmit_discards = cpu_to_be16(stick(t, XMIT_DISC, 0xffff));
	c->port_xmit_constraint_errors = stick(t, XMIT_CON, 0xff);
	c->port_rcv_constraint_errors = stick(t, RCV_CON, 0xff);
	c->link_overrun_errors = stick(t, LLI, 0xf) << 4 | stick(t, BUF_OVERRUN, 0xf);
	c->vl15_dropped = cpu_to_be16(stick(t, VL15, 0xffff));
	c->port_xmit_wait = cpu_to_be32(stick(t, WAIT, 0xffffffff));
}

static int process_mad(struct ib_device *ib, int flags, u32 port, const struct ib_wc *wc,
		       const struct ib_grh *grh, const struct ib_mad *in, struct ib_mad *out,
		       size_t *out_size, u16 *pkey_index)
{
	struct testib *t = to_testib(ib);
	u8 *data = (u8 *)out + PMA_AT + offsetof(struct ib_mad, data);

	if (!t->pma)
		return IB_MAD_RESULT_FAILURE;
	memset(out->data, 0, sizeof(out->data));
	switch (in->mad_hdr.attr_id) {
	case IB_PMA_CLASS_PORT_INFO: {
		struct ib_class_port_info *info = (void *)data;

		info->capability_mask = IB_PMA_CLASS_CAP_EXT_WIDTH;
		break;
	}
	case IB_PMA_PORT_COUNTERS:
		fill_classic(t, (void *)data);
		break;
	case IB_PMA_PORT_COUNTERS_EXT: {
		struct ib_pma_portcounters_ext *c = (void *)data;

		c->port_xmit_data = cpu_to_be64(t->pma_val[XMIT_DATA]);
		c->port_rcv_data = cpu_to_be64(t->pma_val[RCV_DATA]);
		c->port_xmit_packets = cpu_to_be64(t->pma_val[XMIT_PKT]);
		c->port_rcv_packets = cpu_to_be64(t->pma_val[RCV_PKT]);
		c->port_unicast_xmit_packets = c->port_xmit_packets;
		c->port_unicast_rcv_packets = c->port_rcv_packets;
		break;
	}
	default:
		return IB_MAD_RESULT_FAILURE;
	}
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}

static struct rdma_hw_stats *alloc_hw_stats(struct ib_device *ib, u32 port)
{
	return rdma_alloc_hw_stats_struct(hw_descs, N_HW, RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

static int get_hw_stats(struct ib_device *ib, struct rdma_hw_stats *stats, u32 port, int index)
{
	struct testib *t = to_testib(ib);

	wait_while_held(t);
	memcpy(stats->value, t->hw_val, sizeof(t->hw_val));
	return N_HW;
}

static ssize_t hca_type_show(struct device *d, struct device_attribute *a, char *buf)
{
	return sysfs_emit(buf, "MT4129\n");
}
static DEVICE_ATTR_RO(hca_type);

static ssize_t board_id_show(struct device *d, struct device_attribute *a, char *buf)
{
	return sysfs_emit(buf, "MT_0000000838\n");
}
static DEVICE_ATTR_RO(board_id);

static struct attribute *testib_attrs[] = {
	&dev_attr_hca_type.attr, &dev_attr_board_id.attr, NULL
};
static const struct attribute_group testib_group = { .attrs = testib_attrs };

/* With a user context ib_uverbs makes a uverbs device, as of every real HCA. Nothing opens it. */
struct testib_ucontext {
	struct ib_ucontext ibucontext;
};

static int alloc_ucontext(struct ib_ucontext *context, struct ib_udata *udata)
{
	return 0;
}

static void dealloc_ucontext(struct ib_ucontext *context)
{
}

static const struct ib_device_ops ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.device_group = &testib_group,
	.query_device = query_device,
	.query_port = query_port,
	.query_gid = query_gid,
	.query_pkey = query_pkey,
	.get_port_immutable = port_immutable,
	.get_link_layer = link_layer,
	.get_dev_fw_str = fw_str,
	.process_mad = process_mad,
	.alloc_hw_port_stats = alloc_hw_stats,
	.get_hw_stats = get_hw_stats,
	.alloc_ucontext = alloc_ucontext,
	.dealloc_ucontext = dealloc_ucontext,
	INIT_RDMA_OBJ_SIZE(ib_ucontext, testib_ucontext, ibucontext),
};

static ssize_t counter_write(struct file *file, const char __user *ubuf, size_t len, loff_t *pos)
{
	struct testib *t = file->private_data;
	char buf[80] = "", *value = buf, *key;
	u64 n, *at = NULL;
	int i;

	if (simple_write_to_buffer(buf, sizeof(buf) - 1, pos, ubuf, len) < 0)
		return -EFAULT;
	key = strsep(&value, " ");
	if (!value)
		return -EINVAL;
	value = strim(value);
	if (kstrtou64(*value == '+' ? value + 1 : value, 10, &n))
		return -EINVAL;
	for (i = 0; i < N_PMA; i++)
		if (!strcmp(key, pma_names[i]))
			at = &t->pma_val[i];
	for (i = 0; i < N_HW; i++)
		if (!strcmp(key, hw_descs[i].name))
			at = &t->hw_val[i];
	if (!at)
		return -ENOENT;
	*at = *value == '+' ? *at + n : n;
	return len;
}

static const struct file_operations counter_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = counter_write,
};

static int add(int index, struct pci_dev *pdev)
{
	struct testib *t = ib_alloc_device(testib, ib);
	struct dentry *dir;
	int err;

	if (!t)
		return -ENOMEM;
	t->state = IB_PORT_ACTIVE;
	t->phys = 5; /* LinkUp */
	t->width = IB_WIDTH_4X;
	t->speed = IB_SPEED_NDR;
	t->pma = 1;
	t->ib.node_type = RDMA_NODE_IB_CA;
	t->ib.phys_port_cnt = 1;
	t->ib.num_comp_vectors = 1;
	t->ib.node_guid = cpu_to_be64(0x0002c90300000000ULL + index + 1);
	strscpy(t->ib.node_desc, "testib", sizeof(t->ib.node_desc));
	t->ib.dev.parent = pdev ? &pdev->dev : NULL;
	ib_set_device_ops(&t->ib, &ops);
	err = ib_register_device(&t->ib, name, NULL);
	if (err) {
		ib_dealloc_device(&t->ib);
		return err;
	}
	devs[index] = t;
	dir = debugfs_create_dir(dev_name(&t->ib.dev), root);
	t->dir = dir;
	debugfs_create_u32("state", 0600, dir, &t->state);
	debugfs_create_u32("phys", 0600, dir, &t->phys);
	debugfs_create_u32("width", 0600, dir, &t->width);
	debugfs_create_u32("speed", 0600, dir, &t->speed);
	debugfs_create_u32("hold", 0600, dir, &t->hold);
	debugfs_create_u32("pma", 0600, dir, &t->pma);
	debugfs_create_file("counter", 0200, dir, t, &counter_fops);
	return 0;
}

static void drop(int index)
{
	struct testib *t = devs[index];

	if (!t)
		return;
	devs[index] = NULL;
	WRITE_ONCE(t->hold, 0);
	debugfs_remove_recursive(t->dir);
	ib_unregister_device(&t->ib);
	ib_dealloc_device(&t->ib);
}

static int index_of(struct pci_dev *pdev)
{
	int i;

	for (i = 0; i < npci && i < count; i++)
		if (!strcmp(pci_name(pdev), pci[i]))
			return i;
	return -1;
}

static int probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	int index = index_of(pdev);

	return index < 0 ? -ENODEV : add(index, pdev);
}

static void remove(struct pci_dev *pdev)
{
	int index = index_of(pdev);

	if (index >= 0)
		drop(index);
}

/* With these the kernel calls an injected AER error recovered. */
static pci_ers_result_t error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	return PCI_ERS_RESULT_CAN_RECOVER;
}

static pci_ers_result_t mmio_enabled(struct pci_dev *pdev)
{
	return PCI_ERS_RESULT_RECOVERED;
}

static const struct pci_error_handlers error_handlers = {
	.error_detected = error_detected,
	.mmio_enabled = mmio_enabled,
};

static const struct pci_device_id any_id[] = { { PCI_DEVICE(PCI_ANY_ID, PCI_ANY_ID) }, {} };

static struct pci_driver driver = {
	.name = "mlx5_core",
	.id_table = any_id,
	.probe = probe,
	.remove = remove,
	.err_handler = &error_handlers,
};

static int __init testib_init(void)
{
	int i, err;

	if (count < 1 || count > MAX_DEVS)
		return -EINVAL;
	root = debugfs_create_dir("testib", NULL);
	err = pci_register_driver(&driver);
	if (err)
		goto out;
	for (i = 0; i < count && !err; i++) {
		if (i >= npci)
			err = add(i, NULL);
		else if (!devs[i])
			err = -ENODEV;
	}
	if (!err)
		return 0;
	pr_err("testib: device %d: %d\n", i - 1, err);
	for (i = npci; i < count; i++)
		drop(i);
	pci_unregister_driver(&driver);
out:
	debugfs_remove_recursive(root);
	return err;
}

static void __exit testib_exit(void)
{
	int i;

	for (i = npci; i < count; i++)
		drop(i);
	pci_unregister_driver(&driver);
	debugfs_remove_recursive(root);
}

module_init(testib_init);
module_exit(testib_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("InfiniBand port whose health a test sets");
