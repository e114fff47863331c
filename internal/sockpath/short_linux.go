package sockpath

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// most is the maximum length of a sockaddr_un path, without its NUL.
const most = 107

// short uses a descriptor of the folder.
func short(dir, name string) (string, func(), error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return "/proc/self/fd/" + strconv.Itoa(fd) + "/" + name, func() { _ = unix.Close(fd) }, nil
}
