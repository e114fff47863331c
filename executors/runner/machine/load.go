package machine

import "golang.org/x/sys/unix"

// diskFreeMB returns the free space at a path, MiB.
func diskFreeMB(path string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0
	}
	return int64(st.Bavail) * int64(st.Bsize) >> 20
}
