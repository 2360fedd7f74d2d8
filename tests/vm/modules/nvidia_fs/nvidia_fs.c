// SPDX-License-Identifier: GPL-2.0
/*
 * A module with the name and the /proc files of nvidia-fs (GPUDirect
 * Storage), and nothing of its function. Parameter dma_map sets one of the
 * error counts of its statistics file at run time.
 */
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

static unsigned int dma_map;
module_param(dma_map, uint, 0644);

static struct proc_dir_entry *dir;

static int stats_show(struct seq_file *m, void *unused)
{
	seq_puts(m, "GDS Version: 1.14.0.31 \n"
		 "NVFS statistics(ver: 4.0)\n"
		 "NVFS Driver(version: 2.25.7)\n"
		 "Mellanox PeerDirect Supported: True\n"
		 "IO stats: Disabled, peer IO stats: Disabled\n"
		 "Logging level: info\n\n"
		 "Active Shadow-Buffer (MiB): 0\n"
		 "Active Process: 0\n"
		 "Reads\t\t\t\t: err=0 io_state_err=0\n"
		 "Sparse Reads\t\t\t: n=0 io=0 holes=0 pages=0 \n"
		 "Writes\t\t\t\t: err=0 io_state_err=0 pg-cache=0 pg-cache-fail=0 pg-cache-eio=0\n"
		 "Mmap\t\t\t\t: n=1 ok=1 err=0 munmap=2\n"
		 "Bar1-map\t\t\t: n=1 ok=1 err=0 free=1 callbacks=0 active=0 delay-frees=0\n");
	seq_printf(m, "Error\t\t\t\t: cpu-gpu-pages=0 sg-ext=0 dma-map=%u dma-ref=0\n", dma_map);
	seq_puts(m, "Ops\t\t\t\t: Read=0 Write=0 BatchIO=0\n");
	return 0;
}

static int version_show(struct seq_file *m, void *unused)
{
	seq_puts(m, "version: 2.25\n");
	return 0;
}

static int devcount_show(struct seq_file *m, void *unused)
{
	seq_puts(m, "1\n");
	return 0;
}

static int nothing_show(struct seq_file *m, void *unused)
{
	return 0;
}

static int __init stub_init(void)
{
	dir = proc_mkdir("driver/nvidia-fs", NULL);
	if (!dir)
		return -ENOMEM;
	proc_create_single("stats", 0444, dir, stats_show);
	proc_create_single("version", 0444, dir, version_show);
	proc_create_single("devcount", 0444, dir, devcount_show);
	proc_create_single("modules", 0444, dir, nothing_show);
	proc_create_single("bridges", 0444, dir, nothing_show);
	return 0;
}

static void __exit stub_exit(void)
{
	proc_remove(dir);
}

module_init(stub_init);
module_exit(stub_exit);
MODULE_LICENSE("GPL v2");
MODULE_VERSION("2.25.7");
MODULE_DESCRIPTION("stand-in for tests, no GPUDirect Storage");
