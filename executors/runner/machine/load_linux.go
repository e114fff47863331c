package machine

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"

	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
)

// gauge reads how busy the machine is. The CPU's share covers the time since the previous reading.
type gauge struct{ busy, all uint64 }

func (g *gauge) read() wire.Load {
	var l wire.Load
	if b, err := os.ReadFile("/proc/stat"); err == nil {
		line, _, _ := bytes.Cut(b, []byte("\n"))
		var busy, all uint64
		// cpu user nice system idle iowait irq softirq steal; see proc_stat(5)
		for i, f := range strings.Fields(string(line)) {
			n, err := strconv.ParseUint(f, 10, 64)
			if err != nil || i > 8 {
				continue
			}
			all += n
			if i != 4 && i != 5 {
				busy += n
			}
		}
		if g.all > 0 && all > g.all && busy >= g.busy {
			l.CPU = float64(busy-g.busy) / float64(all-g.all)
		}
		g.busy, g.all = busy, all
	}
	total, available := memory()
	l.MemoryUsedMB = max(total-available, 0)
	return l
}

// memory returns the machine's total and available memory, MiB.
func memory() (total, available int64) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		f := strings.Fields(rest)
		if len(f) == 0 {
			continue
		}
		kb, _ := strconv.ParseInt(f[0], 10, 64)
		switch name {
		case "MemTotal":
			total = kb >> 10
		case "MemAvailable":
			available = kb >> 10
		}
	}
	return total, available
}

func memoryMB() int64 {
	total, _ := memory()
	return total
}

// release returns the system's name (os-release(5)).
func release() string {
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
				return policy.Clean(strings.Trim(v, `"'`), 100)
			}
		}
	}
	return "Linux"
}
