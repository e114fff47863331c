package tunnel

import "golang.org/x/sys/unix"

const notSentLow = unix.TCP_NOTSENT_LOWAT
