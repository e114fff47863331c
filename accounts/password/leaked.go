package password

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"strings"
)

// leakedBits is a Bloom filter of 112,130 passwords of ten characters and more, in lower case, out of lists of leaked ones: the first
// million of Mark Burnett's ten million passwords, as SecLists has them (MIT), and those of zxcvbn-ts (MIT). It holds no password, needs no
// network, and lies in the program file, not on the heap. accounts/password/leakedgen.go makes it.
//
//go:embed leaked.bloom
var leakedBits string

// leakedHashes is how many bits stand for one password: with them one good password in 100,000 is taken for a leaked one.
const leakedHashes = 17

// isLeaked reports whether a password, in lower case, is in the lists, as it is or before the digits and signs that people add to it.
func isLeaked(lower string) bool {
	for range 5 { // whole, then without its last one to four
		if inLists(lower) {
			return true
		}
		last := len(lower) - 1
		if last < Min || !strings.Contains("0123456789!@#$%^&*()-_=+.,;:?/ ", lower[last:]) {
			return false
		}
		lower = lower[:last]
	}
	return false
}

func inLists(s string) bool {
	sum := sha256.Sum256([]byte(s))
	a, b := binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])|1
	for i := range uint64(leakedHashes) {
		n := (a + i*b) % uint64(len(leakedBits)*8)
		if leakedBits[n/8]&(1<<(n%8)) == 0 {
			return false
		}
	}
	return true
}
