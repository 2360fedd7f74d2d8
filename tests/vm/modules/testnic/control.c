// SPDX-License-Identifier: GPL-2.0
/* testnic: the list of statistics, and the debugfs files that set it. */
#include <linux/debugfs.h>
#include <linux/rtnetlink.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <net/dcbnl.h>
#include "testnic.h"

static struct testnic_stat *find(struct testnic *nic, const char *name)
{
	int i;

	for (i = 0; i < nic->nstats; i++)
		if (!strncmp(nic->stats[i].name, name, ETH_GSTRING_LEN))
			return &nic->stats[i];
	return NULL;
}

u64 testnic_stat_value(struct testnic *nic, const char *name)
{
	struct testnic_stat *s = find(nic, name);

	return s ? s->value : 0;
}

static int append(struct testnic *nic, const char *name, int prio)
{
	struct testnic_stat *s;

	if (nic->nstats >= TESTNIC_STATS)
		return -ENOSPC;
	s = &nic->stats[nic->nstats++];
	memset(s, 0, sizeof(*s));
	strscpy(s->name, name, sizeof(s->name));
	s->prio = prio;
	return 0;
}

/* mlx5's names, in mlx5's manner: per-priority pause lines only with PFC on. */
int testnic_default_stats(struct testnic *nic)
{
	static const char * const plain[] = {
		"rx_packets", "rx_bytes", "tx_packets", "tx_bytes",
		"rx_out_of_buffer", "rx_steer_missed_packets",
		"rx_vport_rdma_unicast_packets", "rx_vport_rdma_unicast_bytes",
		"tx_vport_rdma_unicast_packets", "tx_vport_rdma_unicast_bytes",
		"rx_crc_errors_phy", "rx_symbol_err_phy", "rx_discards_phy",
		"tx_discards_phy", "tx_errors_phy", "rx_pause_ctrl_phy",
		"tx_pause_ctrl_phy", "link_down_events_phy",
		"rx_pcs_symbol_err_phy", "rx_corrected_bits_phy",
		"outbound_pci_stalled_rd_events", "outbound_pci_stalled_wr_events",
		"outbound_pci_buffer_overflow", "dev_out_of_buffer",
		"tx_pause_storm_warning_events", "tx_pause_storm_error_events",
		"module_unplug", "module_bus_stuck", "module_high_temp",
		"module_bad_shorted",
	};
	static const char * const traffic[] = {
		"rx_prio%d_bytes", "rx_prio%d_packets", "rx_prio%d_discards",
		"rx_prio%d_buf_discard", "rx_prio%d_cong_discard",
		"rx_prio%d_marked", "tx_prio%d_bytes", "tx_prio%d_packets",
	};
	static const char * const pfc[] = {
		"rx_prio%d_pause", "rx_prio%d_pause_duration",
		"rx_prio%d_pause_transition", "tx_prio%d_pause",
		"tx_prio%d_pause_duration",
	};
	char name[ETH_GSTRING_LEN];
	int i, p;

	nic->stats = kvcalloc(TESTNIC_STATS, sizeof(*nic->stats), GFP_KERNEL);
	if (!nic->stats)
		return -ENOMEM;
	for (p = 0; p < 8; p++)
		for (i = 0; i < ARRAY_SIZE(traffic); i++) {
			snprintf(name, sizeof(name), traffic[i], p);
			append(nic, name, -1);
		}
	for (p = 0; p < 8; p++)
		for (i = 0; i < ARRAY_SIZE(pfc); i++) {
			snprintf(name, sizeof(name), pfc[i], p);
			append(nic, name, p);
		}
	for (i = 0; i < ARRAY_SIZE(plain); i++)
		append(nic, plain[i], -1);
	return 0;
}

/* "NAME 5", "NAME +5", "NAME new", "NAME del" */
static int stat_command(struct testnic *nic, char *line)
{
	char *value = line;
	char *name = strsep(&value, " \t");
	struct testnic_stat *s = find(nic, name);
	u64 n;
	int at;

	if (!value || !*name)
		return -EINVAL;
	if (!strcmp(value, "new"))
		return s ? -EEXIST : append(nic, name, -1);
	if (!s)
		return -ENOENT;
	if (!strcmp(value, "del")) {
		at = s - nic->stats;
		nic->nstats--;
		memmove(s, s + 1, (nic->nstats - at) * sizeof(*s));
		return 0;
	}
	if (kstrtou64(*value == '+' ? value + 1 : value, 10, &n))
		return -EINVAL;
	s->value = *value == '+' ? s->value + n : n;
	return 0;
}

static ssize_t stat_write(struct file *file, const char __user *ubuf, size_t len, loff_t *pos)
{
	struct testnic *nic = ((struct seq_file *)file->private_data)->private;
	char *buf = memdup_user_nul(ubuf, len);
	char *rest = buf, *line;
	int err = 0;

	if (IS_ERR(buf))
		return PTR_ERR(buf);
	/* rtnl: ethtool reads the list under it, so it never sees half a change. */
	rtnl_lock();
	while (!err && (line = strsep(&rest, "\n")))
		if (*line)
			err = stat_command(nic, line);
	rtnl_unlock();
	kfree(buf);
	return err ? err : len;
}

static int stat_show(struct seq_file *m, void *unused)
{
	struct testnic *nic = m->private;
	int i;

	for (i = 0; i < nic->nstats; i++)
		seq_printf(m, "%s %llu%s\n", nic->stats[i].name, nic->stats[i].value,
			   testnic_visible(nic, &nic->stats[i]) ? "" : " (hidden)");
	return 0;
}

static int stat_open(struct inode *inode, struct file *file)
{
	return single_open(file, stat_show, inode->i_private);
}

static const struct file_operations stat_fops = {
	.owner = THIS_MODULE,
	.open = stat_open,
	.read = seq_read,
	.write = stat_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static int carrier_get(void *data, u64 *val)
{
	*val = netif_carrier_ok(((struct testnic *)data)->dev);
	return 0;
}

static int carrier_set(void *data, u64 val)
{
	struct testnic *nic = data;

	rtnl_lock();
	if (val)
		netif_carrier_on(nic->dev);
	else
		netif_carrier_off(nic->dev);
	rtnl_unlock();
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(carrier_fops, carrier_get, carrier_set, "%llu\n");

/*
 * Down and up (or up and down) inside one write: carrier_changes counts both
 * edges, and no reader can have seen the state between them.
 */
static int flap_set(void *data, u64 times)
{
	struct testnic *nic = data;

	rtnl_lock();
	for (; times; times--) {
		netif_carrier_off(nic->dev);
		netif_carrier_on(nic->dev);
	}
	rtnl_unlock();
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(flap_fops, NULL, flap_set, "%llu\n");

static int pfc_get(void *data, u64 *val)
{
	*val = ((struct testnic *)data)->pfc_en;
	return 0;
}

static int pfc_set(void *data, u64 val)
{
	struct testnic *nic = data;

	rtnl_lock();
	nic->pfc_en = val;
	rtnl_unlock();
	dcbnl_ieee_notify(nic->dev, RTM_SETDCB, DCB_CMD_IEEE_SET, 0, 0);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(pfc_fops, pfc_get, pfc_set, "0x%02llx\n");

static int speed_get(void *data, u64 *val)
{
	*val = ((struct testnic *)data)->speed;
	return 0;
}

static int speed_set(void *data, u64 val)
{
	struct testnic *nic = data;

	rtnl_lock();
	nic->speed = val;
	/* A real NIC changes speed by training anew: listeners get an event. */
	netdev_state_change(nic->dev);
	rtnl_unlock();
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(speed_fops, speed_get, speed_set, "%llu\n");

static ssize_t driver_write(struct file *file, const char __user *ubuf, size_t len, loff_t *pos)
{
	struct testnic *nic = file->private_data;
	char buf[sizeof(nic->driver)] = "";
	ssize_t n = simple_write_to_buffer(buf, sizeof(buf) - 1, pos, ubuf, len);

	if (n < 0)
		return n;
	strscpy(nic->driver, strim(buf), sizeof(nic->driver));
	return len;
}

static ssize_t driver_read(struct file *file, char __user *ubuf, size_t len, loff_t *pos)
{
	struct testnic *nic = file->private_data;

	return simple_read_from_buffer(ubuf, len, pos, nic->driver, strlen(nic->driver));
}

static const struct file_operations driver_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = driver_read,
	.write = driver_write,
};

static ssize_t pause_write(struct file *file, const char __user *ubuf, size_t len, loff_t *pos)
{
	struct testnic *nic = file->private_data;
	char buf[16] = "";
	unsigned int rx, tx;

	if (simple_write_to_buffer(buf, sizeof(buf) - 1, pos, ubuf, len) < 0)
		return -EFAULT;
	if (sscanf(buf, "%u %u", &rx, &tx) != 2)
		return -EINVAL;
	nic->rx_pause = rx;
	nic->tx_pause = tx;
	return len;
}

static const struct file_operations pause_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = pause_write,
};

void testnic_debugfs(struct testnic *nic, struct dentry *root)
{
	struct dentry *dir = debugfs_create_dir(netdev_name(nic->dev), root);

	debugfs_create_file("carrier", 0600, dir, nic, &carrier_fops);
	debugfs_create_file("flap", 0200, dir, nic, &flap_fops);
	debugfs_create_file("speed", 0600, dir, nic, &speed_fops);
	debugfs_create_file("pfc_en", 0600, dir, nic, &pfc_fops);
	debugfs_create_file("driver", 0600, dir, nic, &driver_fops);
	debugfs_create_file("pause", 0200, dir, nic, &pause_fops);
	debugfs_create_file("stat", 0600, dir, nic, &stat_fops);
}
