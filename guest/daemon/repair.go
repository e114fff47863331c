package daemon

import "time"

// repairEvery is how often a disk that took no output is tried again.
const repairEvery = time.Second

// repairLater writes output to the disk as soon as that takes it, also when no more comes.
func (d *Daemon) repairLater() {
	if d.mending.CompareAndSwap(false, true) {
		d.work.Go(d.repair) // a pump lives, and with it what waits for work
	}
}

// mend tries the disk until all output is there, or the guest ends.
func (d *Daemon) repair() {
	tick := time.NewTicker(repairEvery)
	defer tick.Stop()
	for {
		select {
		case <-d.over:
			d.mending.Store(false)
			return
		case <-tick.C:
		}
		d.mending.Store(false) // before it looks: who fails from here on begins anew
		if d.retry() {
			return
		}
		if !d.mending.CompareAndSwap(false, true) {
			return // somebody else has begun
		}
	}
}

// retry tries the disk for every log that is not wholly there, and reports whether all are now.
func (d *Daemon) retry() bool {
	d.mu.Lock()
	procs := d.list()
	d.mu.Unlock()
	whole := true
	for _, p := range procs {
		for _, l := range p.outputs() {
			if l.Degraded() == nil {
				continue
			}
			if l.Retry() != nil {
				whole = false
				continue
			}
			l.ReleaseMemory() // of one that has ended
		}
	}
	return whole
}
