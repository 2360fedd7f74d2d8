/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TESTNIC_H
#define TESTNIC_H

#include <linux/netdevice.h>
#include <linux/ethtool.h>
#include <linux/mutex.h>

/* Even, as devices are joined in pairs. */
#define TESTNIC_MAX 32
#define TESTNIC_STATS 256

struct testnic_stat {
	char name[ETH_GSTRING_LEN];
	u64 value;
	int prio; /* shown only while PFC is on for it; -1: always shown */
};

struct testnic {
	struct net_device *dev;
	int index;
	u32 speed; /* Mb/s */
	bool rx_pause, tx_pause;
	u8 pfc_en;
	char driver[32];
	struct mutex lock; /* one writer of debugfs at a time */
	struct testnic_stat *stats;
	int nstats;
};

static inline bool testnic_visible(const struct testnic *nic,
				   const struct testnic_stat *s)
{
	return s->prio < 0 || (nic->pfc_en >> s->prio) & 1;
}

u64 testnic_stat_value(struct testnic *nic, const char *name);
int testnic_default_stats(struct testnic *nic);
void testnic_debugfs(struct testnic *nic, struct dentry *root);

/* vf.c: most virtual functions of one; many more than fit into one answer of rtnetlink. */
#define TESTNIC_VFS 2048
struct ifla_vf_info;
int testnic_get_vf_config(struct net_device *dev, int vf, struct ifla_vf_info *info);
int testnic_set_vf_link_state(struct net_device *dev, int vf, int state);
struct device *testnic_pf_add(int index);
void testnic_pf_remove(struct device *dev);
int testnic_bus_add(void);
void testnic_bus_remove(void);

#endif
