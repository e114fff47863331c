package config

// What limits may be where they are not 0. Less memory does not hold a guest and an agent.
const (
	leastCPUs      = 0.05
	leastMemoryMB  = 128
	leastProcesses = 32
	leastDiskMB    = 16
)

func (d *decoder) checkLimits(path string, l SandboxLimits) {
	least := func(key string, value, least float64, what string) {
		if value != 0 && value < least {
			d.problem(join(path, key), "must be %v %s or more; 0 means no limit", least, what)
		}
	}
	least("cpus", float64(l.CPUs), leastCPUs, "cores")
	least("memoryMb", float64(l.MemoryMB), leastMemoryMB, "MiB")
	least("processes", float64(l.Processes), leastProcesses, "processes")
	least("diskMb", float64(l.DiskMB), leastDiskMB, "MiB")
	least("wallMinutes", float64(l.WallMinutes), 1, "minutes")
}
