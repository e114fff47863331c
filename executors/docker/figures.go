//go:build linux || darwin

package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/parawork/parawork/executors"
)

// maxStats limits the size of the engine's answer about one container.
const maxStats = 1 << 20

// Figures asks the engine what the container uses, and the kernel which processes it killed for lack of memory, because the engine does not
// report that.
func (s *sandbox) Figures() (executors.Figures, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout) // Figures has no context: this is the time limit
	defer cancel()
	r, err := s.e.api.ContainerStatsOneShot(ctx, s.rec.Container)
	if err != nil {
		return executors.Figures{}, inWords(err)
	}
	defer r.Body.Close()
	var st container.StatsResponse
	if err := json.NewDecoder(io.LimitReader(r.Body, maxStats)).Decode(&st); err != nil {
		return executors.Figures{}, fmt.Errorf("reading the container's figures: %w", err)
	}
	f := figures(st)
	if s.rec.Remote {
		f.MemoryPeak = max(f.MemoryPeak, f.MemoryBytes)
		return f, nil // its processes belong to another kernel
	}
	if c, err := s.e.inspect(ctx, s.id); err == nil {
		kills, peak := memoryEvents(c.State.Pid)
		f.OOMKills, f.MemoryPeak = kills, max(f.MemoryPeak, peak)
	}
	f.MemoryPeak = max(f.MemoryPeak, f.MemoryBytes)
	return f, nil
}

// figures returns the figures the engine reports. Page cache that can be dropped does not count as used.
func figures(st container.StatsResponse) executors.Figures {
	used, cache := st.MemoryStats.Usage, st.MemoryStats.Stats["inactive_file"] // cgroup v2
	if v1, ok := st.MemoryStats.Stats["total_inactive_file"]; ok {
		cache = v1
	}
	if cache <= used {
		used -= cache
	}
	return executors.Figures{CPUMs: int64(st.CPUStats.CPUUsage.TotalUsage / 1e6), MemoryBytes: int64(used), MemoryPeak: int64(st.MemoryStats.MaxUsage),
		Processes: int64(st.PidsStats.Current), ThrottledMs: int64(st.CPUStats.ThrottlingData.ThrottledTime / 1e6)}
}

// memoryEvents reads from the cgroup of a container's first process how many processes the kernel killed for lack of memory, and the peak.
// It returns nothing where the cgroup cannot be read, as when the engine runs in a virtual machine.
func memoryEvents(pid int) (kills, peak int64) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil || pid <= 0 {
		return 0, 0
	}
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || strings.Contains(parts[2], "..") {
			continue
		}
		switch {
		case strings.Contains(","+parts[1]+",", ",memory,"):
			dir := filepath.Join("/sys/fs/cgroup/memory", parts[2])
			return keyed(filepath.Join(dir, "memory.oom_control"), "oom_kill"), number(filepath.Join(dir, "memory.max_usage_in_bytes"))
		case parts[1] == "":
			dir := filepath.Join("/sys/fs/cgroup", parts[2])
			kills = keyed(filepath.Join(dir, "memory.events"), "oom_kill")
			peak = number(filepath.Join(dir, "memory.peak"))
		}
	}
	return kills, peak
}

func keyed(path, key string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, key+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64) // 0 where it is no number
			return n
		}
	}
	return 0
}

func number(path string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64) // 0 where it is no number
	return n
}

// plainLog reads a container's output, without Docker's stream headers and without control characters.
func plainLog(r io.Reader, limit int) string {
	var out bytes.Buffer
	demultiplex(&out, bufio.NewReader(io.LimitReader(r, 64<<10)))
	return plain(out.String(), limit)
}

// plain makes one line of arbitrary text.
func plain(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, " "))
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > limit {
		s = "..." + strings.ToValidUTF8(s[len(s)-limit:], "")
	}
	return s
}
