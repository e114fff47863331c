package executors

import (
	"strconv"
	"strings"
)

// MemoryWords writes MiB for people: "512 MiB", "2 GiB", "1.5 GiB".
func MemoryWords(mb int64) string {
	if mb < 1024 {
		return strconv.FormatInt(mb, 10) + " MiB"
	}
	text := strconv.FormatFloat(float64(mb)/1024, 'f', 1, 64)
	return strings.TrimSuffix(text, ".0") + " GiB"
}
