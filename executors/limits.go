package executors

import (
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// Smallest and largest values of a limit that is not 0.
const (
	leastCPUs, mostCPUs           = 0.05, 1024
	leastMemoryMB, mostMemoryMB   = 128, 16 << 20 // less does not hold a guest and an agent
	leastProcesses, mostProcesses = 32, 4 << 20
	leastDiskMB, mostDiskMB       = 16, 1 << 30
	leastWall, mostWall           = 1, 10 * 366 * 24 * 60
)

// field is one of the limits, by its name in the API.
type field struct {
	name  string
	least float64
	most  float64
	get   func(Limits) float64
	set   func(*Limits, float64)
	words func(float64) string
}

var fields = [...]field{
	{"cpus", leastCPUs, mostCPUs, func(l Limits) float64 { return l.CPUs }, func(l *Limits, v float64) { l.CPUs = v }, cpuWords},
	{"memory_mb", leastMemoryMB, mostMemoryMB, func(l Limits) float64 { return float64(l.MemoryMB) }, func(l *Limits, v float64) { l.MemoryMB = int64(v) },
		func(v float64) string { return MemoryWords(int64(v)) }},
	{"processes", leastProcesses, mostProcesses, func(l Limits) float64 { return float64(l.Processes) }, func(l *Limits, v float64) { l.Processes = int64(v) },
		func(v float64) string { return strconv.FormatInt(int64(v), 10) + " processes" }},
	{"disk_mb", leastDiskMB, mostDiskMB, func(l Limits) float64 { return float64(l.DiskMB) }, func(l *Limits, v float64) { l.DiskMB = int64(v) },
		func(v float64) string { return MemoryWords(int64(v)) }},
	{"wall_minutes", leastWall, mostWall, func(l Limits) float64 { return float64(l.WallMinutes) }, func(l *Limits, v float64) { l.WallMinutes = int64(v) },
		func(v float64) string { return MinutesWords(int64(v)) }},
}

// LimitNames are the names of the limits, as in the API.
func LimitNames() []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.name
	}
	return out
}

// With returns l with the values set in over replaced.
func (l Limits) With(over Limits) Limits {
	for _, f := range fields {
		if v := f.get(over); v > 0 {
			f.set(&l, v)
		}
	}
	return l
}

// AtMost returns l capped by most: a value of l that is 0 becomes most's.
func (l Limits) AtMost(most Limits) Limits {
	for _, f := range fields {
		if top := f.get(most); top > 0 && (f.get(l) == 0 || f.get(l) > top) {
			f.set(&l, top)
		}
	}
	return l
}

// Check refuses limits too small to be useful and limits above most. The error names the field and, where there is one, the maximum.
func (l Limits) Check(most Limits) error {
	for _, f := range fields {
		v, top := f.get(l), f.get(most)
		switch {
		case v == 0:
		case v < f.least || v > f.most || v != v:
			return fault.New(fault.Invalid, "invalid_limit", "%s must be between %s and %s, or 0 for none of its own.", f.name,
				Plain(f.least), Plain(f.most)).With("field", f.name)
		case top > 0 && v > top:
			return fault.New(fault.Invalid, "limit_above_maximum", "%s may be %s (%s) at most on this server. Choose less, or ask an operator to raise sandboxing.limits.maximum.",
				f.name, Plain(top), f.words(top)).With("field", f.name).With("maximum", top)
		}
	}
	return nil
}

// None reports whether no limit is set.
func (l Limits) None() bool { return l == Limits{} }

// Words lists the limits that are set, for people: "2 cores, 4 GiB of memory, 8 hours".
func (l Limits) Words() string {
	var out []string
	for _, f := range fields {
		v := f.get(l)
		if v == 0 {
			continue
		}
		text := f.words(v)
		switch f.name {
		case "memory_mb":
			text += " of memory"
		case "disk_mb":
			text += " of disk"
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return "none of its own"
	}
	return strings.Join(out, ", ")
}

// Plain formats a number without needless digits.
func Plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func cpuWords(v float64) string {
	if v == 1 {
		return "1 core"
	}
	return Plain(v) + " cores"
}

// MemoryWords formats MiB for people: "512 MiB", "2 GiB", "1.5 GiB".
func MemoryWords(mb int64) string {
	if mb < 1024 {
		return strconv.FormatInt(mb, 10) + " MiB"
	}
	text := strconv.FormatFloat(float64(mb)/1024, 'f', 1, 64)
	return strings.TrimSuffix(text, ".0") + " GiB"
}

// MinutesWords formats minutes for people: "45 minutes", "8 hours", "1 hour 30 minutes", "2 days".
func MinutesWords(minutes int64) string {
	var parts []string
	for _, u := range []struct {
		one string
		of  int64
	}{{"day", 24 * 60}, {"hour", 60}, {"minute", 1}} {
		n := minutes / u.of
		minutes %= u.of
		switch {
		case n == 1:
			parts = append(parts, "1 "+u.one)
		case n > 1:
			parts = append(parts, strconv.FormatInt(n, 10)+" "+u.one+"s")
		}
	}
	return strings.Join(parts, " ")
}
