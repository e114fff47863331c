package caches

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// shareBelow gives a folder a default access list: only the owner and the group of what is made below may write it.
func shareBelow(dir string) error {
	const (
		version            = 2
		owner, group, rest = 0x01, 0x04, 0x20
		nobody             = 0xffffffff
	)
	list := binary.LittleEndian.AppendUint32(nil, version)
	for _, e := range []struct{ tag, perm uint16 }{{owner, 7}, {group, 7}, {rest, 0}} {
		list = binary.LittleEndian.AppendUint16(list, e.tag)
		list = binary.LittleEndian.AppendUint16(list, e.perm)
		list = binary.LittleEndian.AppendUint32(list, nobody)
	}
	if err := unix.Setxattr(dir, "system.posix_acl_default", list, 0); err != nil {
		return fmt.Errorf("giving %s a default access list: %w", dir, err)
	}
	return nil
}
