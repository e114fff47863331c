package quota

// Settle waits until no sandbox is being suspended or resumed.
func (e *Enforcer) Settle() { e.work.Wait() }
