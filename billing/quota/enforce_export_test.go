package quota

// Settle waits for what is being made to stand still or woken.
func (e *Enforcer) Settle() { e.work.Wait() }
