package bubblewrap

import "golang.org/x/sys/unix"

const (
	nativeArch   = unix.AUDIT_ARCH_AARCH64
	otherNumbers = 0 // there are none
)

// forbiddenHere are calls that only this architecture has.
var forbiddenHere []call
