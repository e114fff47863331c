package envd

import (
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Metrics are what GET /metrics answers. Memory and disk are bytes.
type Metrics struct {
	Ts         int64   `json:"ts"` // Unix s
	CPUCount   int     `json:"cpu_count"`
	CPUUsedPct float64 `json:"cpu_used_pct"`
	MemTotal   int64   `json:"mem_total"`
	MemUsed    int64   `json:"mem_used"`
	MemCache   int64   `json:"mem_cache"`
	DiskUsed   int64   `json:"disk_used"`
	DiskTotal  int64   `json:"disk_total"`
	MemTotalM  int64   `json:"mem_total_mib"`
	MemUsedM   int64   `json:"mem_used_mib"`
}

func (s *server) metrics(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	cpus, total := s.init.CPUCount, s.init.MemoryMB<<20
	s.mu.Unlock()
	if cpus == 0 {
		cpus = runtime.NumCPU()
	}
	m := Metrics{Ts: time.Now().Unix(), CPUCount: cpus, MemTotal: total, MemTotalM: total >> 20}
	before, _ := usage()
	at := time.Now()
	time.Sleep(50 * time.Millisecond) // what is measured over
	after, memory := usage()
	ticks := after - before
	m.CPUUsedPct = min(100, float64(ticks)*10/float64(time.Since(at).Milliseconds())*100/float64(cpus))
	m.MemUsed, m.MemUsedM = memory, memory>>20
	var disk syscall.Statfs_t
	if syscall.Statfs("/", &disk) == nil {
		m.DiskTotal = int64(disk.Blocks) * int64(disk.Bsize)
		m.DiskUsed = int64(disk.Blocks-disk.Bfree) * int64(disk.Bsize)
	}
	writeJSON(w, http.StatusOK, m)
}

// usage sums up the processes of the sandbox: CPU time in ticks of 10 ms, and resident memory in bytes.
func usage() (ticks, memory int64) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return 0, 0
	}
	for _, d := range dirs {
		if _, err := strconv.Atoi(d.Name()); err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + d.Name() + "/stat")
		if err != nil {
			continue
		}
		_, rest, ok := strings.Cut(string(b), ") ")
		f := strings.Fields(rest)
		if !ok || len(f) < 22 {
			continue
		}
		user, _ := strconv.ParseInt(f[11], 10, 64)
		system, _ := strconv.ParseInt(f[12], 10, 64)
		pages, _ := strconv.ParseInt(f[21], 10, 64)
		ticks += user + system
		memory += pages * int64(os.Getpagesize())
	}
	return ticks, memory
}
