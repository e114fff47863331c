package executors

import (
	"fmt"
	"slices"
)

// SizesWith returns the default size and those others with another number of cores, the smallest first. priceNano is what an hour of a size
// costs, in nano-USD.
func SizesWith(cpus int, memoryMB int64, others []Size, priceNano func(cpus int, memoryMB int64) int64) []Size {
	out := []Size{{CPUs: cpus, MemoryMB: memoryMB, Default: true}}
	for _, s := range others {
		if s.CPUs != cpus {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Size) int { return a.CPUs - b.CPUs })
	for i := range out {
		out[i].PriceNano = priceNano(out[i].CPUs, out[i].MemoryMB)
	}
	return out
}

func (s Size) Words() string {
	return fmt.Sprintf("%s, %s", cpuWords(float64(s.CPUs)), MemoryWords(s.MemoryMB))
}
