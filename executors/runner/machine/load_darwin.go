package machine

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
)

// gauge reads how busy the machine is. The CPU's share is the load average of the last minute: only Mach reports ticks.
type gauge struct{}

// loadavg is struct loadavg of sys/resource.h.
type loadavg struct {
	average [3]uint32
	_       uint32
	scale   int64
}

func (*gauge) read() wire.Load {
	var l wire.Load
	if b, err := unix.SysctlRaw("vm.loadavg"); err == nil && len(b) >= int(unsafe.Sizeof(loadavg{})) {
		if a := (*loadavg)(unsafe.Pointer(&b[0])); a.scale > 0 {
			l.CPU = min(float64(a.average[0])/float64(a.scale)/float64(runtime.NumCPU()), 1)
		}
	}
	free, err := unix.SysctlUint32("vm.page_free_count")
	if size, serr := unix.SysctlUint64("hw.pagesize"); err == nil && serr == nil {
		l.MemoryUsedMB = max(memoryMB()-int64(uint64(free)*size>>20), 0)
	}
	return l
}

func memoryMB() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n >> 20)
}

func release() string {
	v, err := unix.Sysctl("kern.osproductversion")
	if err != nil {
		return "macOS"
	}
	return "macOS " + policy.Clean(v, 40)
}
