package executors

import (
	"fmt"
)

func (s Size) Words() string {
	return fmt.Sprintf("%s, %s", cpuWords(float64(s.CPUs)), MemoryWords(s.MemoryMB))
}
