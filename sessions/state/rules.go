package state

import (
	"time"

	"github.com/parawork/parawork/sessions/agents"
)

// The rules of the state, as data. Every source says one mood at a time. What it says anew takes the place of what others said
// before and contradict, when its power reaches what those hold. So a title that looks the same while a question is open ends
// no question, but a title that begins to spin does; and no source can keep a session in a state for ever: what says "working"
// has a life that only output or the use of CPU renews, and a question ends when it is answered, whoever tells of that.

// weight says how much a source's word counts.
type weight struct {
	power uint8 // 0: does not count at all
	hold  uint8
	life  time.Duration // believed so long without output and CPU use; 0 = until something else is said
}

// alive is how long "working" is believed without a sign of life.
const alive = 15 * time.Second

type weights [agents.Sources][agents.Closing]weight

// rules are the weights of an agent nobody described.
var rules = weights{
	agents.FromPerson: {
		agents.Busy:   {9, 2, 10 * time.Minute}, // a person sees more than we do, until the agent says anything new
		agents.Asking: {9, 2, 0},
		agents.Ready:  {9, 2, 0},
	},
	agents.FromHook: {
		agents.Busy:    {6, 2, alive}, // no hook tells of an interrupt: a title that falls idle ends it
		agents.Asking:  {7, 5, 0},
		agents.Ready:   {6, 3, 0},
		agents.Trouble: {6, 3, 0},
	},
	agents.FromTranscript: { // it lags, and cannot see a question of permission
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
	agents.FromProcess: { // a program nobody described uses CPU, or does so no more
		agents.Busy:  {1, 0, alive},
		agents.Ready: {1, 0, 0},
	},
}

// weakPower is what a hint has that may look the same while a question or an error stands.
const weakPower = 2

// Agents that tell when they work and when they do not are believed more than the number of bytes they print.
var explicitRules = func() weights {
	w := rules
	w[agents.FromBytes] = [agents.Closing]weight{}
	w[agents.FromProcess] = [agents.Closing]weight{}
	return w
}()

// Times of the rules.
const (
	startingFor = 10 * time.Second        // a session that shows nothing at all is starting for so long
	insistAfter = 3 * time.Second         // who goes on saying that it works, so long after others ended it, is believed again
	answering   = 1500 * time.Millisecond // after a key, so long for an agent to say what came of its question
	stuckAfter  = 2 * time.Minute         // without output and CPU use, something that should move is stuck
	hungAfter   = 5 * time.Minute         // the same for a tool whose agent still turns its spinner
)

// The measure of output, for agents that tell nothing.
const (
	echoWithin   = 200 * time.Millisecond // output so soon after a key is its echo
	echoBytes    = 128                    // when it is no more than this
	echoPieces   = 4                      // and of no more pieces than this
	pieceBytes   = 16                     // a piece counts so much on top of its bytes: short lines in a row are work too
	busyAbove    = 256.0                  // score, decaying by e each second, that means working
	idleBelow    = 64.0                   // score that means idle again
	scoreCeiling = 1024.0                 // so that the end of a burst shows within three seconds
)
