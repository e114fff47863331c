package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/parawork/parawork/agent/providers"
)

// How often a call may have the same result among the last steps, and how many answers in a row may be cut in a call.
const (
	sameCalls = 5
	lastSteps = 10
	mostCut   = 4
)

// repeats ends a turn that does the same again and again: one whose last answer holds nothing but calls that had the same results in
// most of the last steps.
func (r *running) repeats(m *Message) error {
	if r.recent = append(r.recent, r.signatures(m)); len(r.recent) > lastSteps {
		r.recent = r.recent[1:]
	}
	last := r.recent[len(r.recent)-1]
	if len(last) == 0 {
		return nil
	}
	same := lastSteps
	for _, call := range last {
		n := 0
		for _, step := range r.recent {
			if slices.Contains(step, call) {
				n++
			}
		}
		same = min(same, n)
	}
	if same > sameCalls {
		return &stop{ending{TurnFailed, fmt.Sprintf("The agent made the same calls with the same results %d times within %d steps. Say what it should do differently.", same, lastSteps), "turn_repeats"}}
	}
	if n := r.cutInARow(); n > mostCut {
		return &stop{ending{TurnFailed, fmt.Sprintf("The model wrote %d answers in a row that were longer than it may write at once, and were cut in a call. Ask for smaller steps.", n), "model_output_cut"}}
	}
	return nil
}

// remember fills in what the turn did before this server went on with it.
func (r *running) remember() {
	r.recent = nil
	for _, m := range r.messages {
		if m.Role == Assistant && m.State == Complete && m.TurnID == r.turn.ID && !r.hasOpen(m) {
			r.recent = append(r.recent, r.signatures(m))
		}
	}
	r.recent = r.recent[max(0, len(r.recent)-lastSteps):]
}

// signatures stand for what a step did: each of its calls with the result, or the text of a model that pauses without a call.
func (r *running) signatures(m *Message) (all []string) {
	for _, c := range r.calls[m.ID] {
		sum := sha256.New()
		var args bytes.Buffer
		if json.Compact(&args, c.Args) != nil {
			args.Write(c.Args)
		}
		fmt.Fprintf(sum, "%q %q %q", c.Tool, args.Bytes(), c.State)
		for _, p := range c.Content {
			fmt.Fprintf(sum, "%q", p.Text)
			fmt.Fprintf(sum, "%q", p.Ref) // of an image
		}
		all = append(all, hex.EncodeToString(sum.Sum(nil)))
	}
	if len(all) == 0 && m.Stop == providers.StopPause {
		all = append(all, "pause "+textOf(m.Parts))
	}
	return all
}

// cutInARow is how many of the turn's last answers were cut in a call.
func (r *running) cutInARow() (n int) {
	for _, m := range slices.Backward(r.messages) {
		if m.Role != Assistant || m.State != Complete || m.TurnID != r.turn.ID {
			continue
		}
		if m.Stop != providers.StopMaxOutput {
			break
		}
		n++
	}
	return n
}
