//go:build linux && (amd64 || arm64)

package bubblewrap

// Forbidden are the system calls the filter refuses whatever their arguments, by name.
func Forbidden() map[string]uintptr {
	out := make(map[string]uintptr)
	for _, c := range forbidden {
		out[c.name] = uintptr(c.nr)
	}
	return out
}

// X32 is where the numbers of another way to call begin, 0 = nowhere.
const X32 = otherNumbers
