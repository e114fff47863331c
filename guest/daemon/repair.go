package daemon

import "time"

// repairEvery is how often to retry a disk that accepted no output.
const repairEvery = time.Second

// repairLater writes output to the disk as soon as that accepts it, even when no more comes.
func (d *Daemon) repairLater() {
	if d.mending.CompareAndSwap(false, true) {
		d.work.Go(d.repair) // a pump is running, and with it the wait for work
	}
}

// repair retries the disk until all output is stored, or the guest ends.
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
		d.mending.Store(false) // before it checks: a failure from here on starts a new repair
		if d.retry() {
			return
		}
		if !d.mending.CompareAndSwap(false, true) {
			return // another goroutine has started
		}
	}
}

// retry retries the disk for every log that is not complete there, and reports whether all are now.
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
