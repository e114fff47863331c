package config

// Demo is the page /demo, on which people who are not signed in run code in sandboxes of their own.
type Demo struct {
	Enabled  bool   `json:"enabled"`
	Executor string `json:"executor"` // a kind of place that isolates

	Minutes       int     `json:"minutes"`       // a sandbox lives
	IdleSeconds   int     `json:"idleSeconds"`   // without use, until a sandbox ends
	Sandboxes     int     `json:"sandboxes"`     // of the instance at once
	PerAddress    int     `json:"perAddress"`    // of one address at once
	StartsPerHour int     `json:"startsPerHour"` // of one address
	RunsPerMinute int     `json:"runsPerMinute"` // in one sandbox
	RunSeconds    int     `json:"runSeconds"`    // one run may take
	OutputKB      int     `json:"outputKb"`      // one run may print and display
	CPUs          float64 `json:"cpus"`
	MemoryMB      int     `json:"memoryMb"`
	Processes     int     `json:"processes"` // and threads
	DiskMB        int     `json:"diskMb"`
}

func defaultDemo() Demo {
	return Demo{Executor: "docker", Minutes: 10, IdleSeconds: 180, Sandboxes: 10, PerAddress: 2, StartsPerHour: 6, RunsPerMinute: 20, RunSeconds: 30, OutputKB: 256, CPUs: 0.5, MemoryMB: 512,
		Processes: 64, DiskMB: 256}
}

// checkDemo refuses 0 everywhere: it would mean no limit, and strangers have one of each.
func (d *decoder) checkDemo(c Demo) {
	between := func(key string, v, least, most int) {
		if v < least || v > most {
			d.problem("demo."+key, "must be from %d to %d", least, most)
		}
	}
	between("minutes", c.Minutes, 1, 60)
	between("idleSeconds", c.IdleSeconds, 30, 3600)
	between("sandboxes", c.Sandboxes, 1, 100)
	between("perAddress", c.PerAddress, 1, 100)
	between("startsPerHour", c.StartsPerHour, 1, 1000)
	between("runsPerMinute", c.RunsPerMinute, 1, 600)
	between("runSeconds", c.RunSeconds, 1, 300)
	between("outputKb", c.OutputKB, 1, 2048)
	if c.CPUs < leastCPUs || c.CPUs > 16 {
		d.problem("demo.cpus", "must be from %v to 16", leastCPUs)
	}
	between("memoryMb", c.MemoryMB, leastMemoryMB, 16384)
	between("processes", c.Processes, leastProcesses, 4096)
	between("diskMb", c.DiskMB, leastDiskMB, 16384)
}
