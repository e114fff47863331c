// Package state derives what a session does: it starts, works, waits for a person, is idle or has ended. A Machine weighs the
// reports of its sources (the agent's hooks, its record, the terminal's title and screen, output, CPU, people) by the weights of
// rules.go. It has no goroutine and no lock: its owner calls it under a lock and passes the time.
package state

import "time"

// State of a session.
type State string

// States of a session, as in the API.
const (
	Starting State = "starting"
	Working  State = "working"
	Waiting  State = "waiting" // needs a person
	Idle     State = "idle"
	Exited   State = "exited"
	Failed   State = "failed"
	Lost     State = "lost"
)

// Ended reports whether s is final.
func (s State) Ended() bool { return s == Exited || s == Failed || s == Lost }

// ScreenQuiet is how long nothing may be printed or typed before the screen is read, once after each output: a screen that is
// being drawn proves nothing.
const ScreenQuiet = 400 * time.Millisecond
