package state

import (
	"time"

	"github.com/parawork/parawork/sessions/agents"
)

// The rules of the state, as data. Every source reports one mood at a time. A new report overrules contradicting reports of
// others when its power reaches what those hold. So a title that looks the same while a question is open ends no question, but a
// title that begins to spin does. No source can hold a session in a state forever: "working" has a life that only output or the
// use of CPU renews, and a question ends when it is answered, whichever source reports that.

// weight is how much a source's report counts.
type weight struct {
	power uint8 // 0: does not count at all
	hold  uint8
	life  time.Duration // how long it applies without output and CPU use; 0 = until something else is reported
}

// alive is how long "working" applies without a sign of life.
const alive = 15 * time.Second

type weights [agents.Sources][agents.Closing]weight

// rules are the weights for an unknown agent.
var rules = weights{
	agents.FromPerson: {
		agents.Busy:   {9, 2, 10 * time.Minute}, // a person sees more than we do, until the agent reports anything new
		agents.Asking: {9, 2, 0},
		agents.Ready:  {9, 2, 0},
	},
	agents.FromHook: {
		agents.Busy:    {6, 2, alive}, // no hook reports an interrupt: a title that becomes idle ends it
		agents.Asking:  {7, 5, 0},
		agents.Ready:   {6, 3, 0},
		agents.Trouble: {6, 4, 0}, // the record, which notes the end of any turn, does not end it
	},
	agents.FromTranscript: { // it lags, and cannot see a permission question
		agents.Busy:    {3, 2, alive},
		agents.Asking:  {3, 4, 0},
		agents.Ready:   {3, 2, 0},
		agents.Trouble: {4, 3, 0},
	},
	agents.FromNotice: {
		agents.Busy:    {5, 2, alive},
		agents.Asking:  {6, 5, 0},
		agents.Ready:   {2, 2, 0},
		agents.Trouble: {4, 3, 0},
	},
	agents.FromTitle: {
		agents.Busy:    {5, 2, alive},
		agents.Asking:  {5, 4, 0},
		agents.Ready:   {5, 2, 0},
		agents.Trouble: {5, 3, 0},
	},
	agents.FromReport: {
		agents.Busy:    {6, 3, alive},
		agents.Asking:  {6, 5, 0},
		agents.Ready:   {6, 3, 0},
		agents.Trouble: {6, 3, 0},
	},
	agents.FromBytes: { // output that begins after a question was asked has answered it
		agents.Busy:  {5, 2, 0},
		agents.Ready: {5, 0, 0},
	},
	agents.FromScreen: {
		agents.Unsaid:  {5, 0, 0}, // the question it showed is gone
		agents.Busy:    {2, 1, alive},
		agents.Asking:  {4, 4, 0},
		agents.Ready:   {2, 1, 0},
		agents.Trouble: {4, 3, 0},
	},
	agents.FromProcess: { // an unknown program uses CPU, or no longer does
		agents.Busy:  {1, 0, alive},
		agents.Ready: {1, 0, 0},
	},
}

// weakPower is the power of a hint that may look the same while a question or an error is open.
const weakPower = 2

// Agents that report when they work and when they do not are believed more than the number of bytes they print.
var explicitRules = func() weights {
	w := rules
	w[agents.FromBytes] = [agents.Closing]weight{}
	w[agents.FromProcess] = [agents.Closing]weight{}
	return w
}()

// Times of the rules.
const (
	startingFor = 10 * time.Second        // a session without any output is starting for this long
	insistAfter = 3 * time.Second         // a source that keeps reporting work is believed again this long after others overruled it
	answering   = 1500 * time.Millisecond // after a key, how long an agent has to report the result of its question
	stuckAfter  = 2 * time.Minute         // without output and CPU use for this long, something that should move is stuck
	hungAfter   = 5 * time.Minute         // the same for a tool whose agent still turns its spinner
)

// Measuring output, for agents that report nothing.
const (
	echoWithin   = 200 * time.Millisecond // output this soon after a key is its echo
	echoBytes    = 128                    // when it is no more than this
	echoPieces   = 4                      // and consists of no more pieces than this
	pieceBytes   = 16                     // added per piece on top of its bytes: several short lines are work too
	busyAbove    = 256.0                  // score, decaying by e each second, that means working
	idleBelow    = 64.0                   // score that means idle again
	scoreCeiling = 1024.0                 // so that the end of a burst shows within three seconds
)
