package scripted

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// step is one answer of the model in a #script.
type step struct {
	Thinking string     `json:"thinking"`
	Text     string     `json:"text"`
	Recall   string     `json:"recall"` // the reply is the line of the system prompt that contains this
	Tools    []toolCall `json:"tools"`
	Error    *fault     `json:"error"`
	Stop     string     `json:"stop"`     // why it stops, in the words of Anthropic: max_tokens, refusal, pause_turn; "" = as it should
	DelayMS  int        `json:"delay_ms"` // before the answer
	HoldMS   int        `json:"hold_ms"`  // after the answer has begun
	PieceMS  int        `json:"piece_ms"` // after each further piece of it
	NoUsage  bool       `json:"no_usage"` // as servers of Chat Completions that do not count
	Repeat   []string   `json:"repeat"`   // the step is repeated while a result holds one of these
	Usage    usage      `json:"usage"`

	fault *fault // of this request, in the middle of the answer
}

// fault is an error instead of an answer, or in the middle of one.
type fault struct {
	Status     int     `json:"status"`
	Type       string  `json:"type"`
	Message    string  `json:"message"`
	RetryAfter float64 `json:"retry_after"` // seconds; 0 = it is not said
	Times      int     `json:"times"`       // after so many the answer is given; 0 = always
	Where      string  `json:"where"`       // "" = instead of the answer, "middle" = as an event in it, "cut" = its connection ends in the middle
}

// toolCall calls a tool of the CLI. Input is an object, or a string for the tools that take plain text; RawInput is sent as it is, for
// arguments that are no JSON.
type toolCall struct {
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	RawInput string          `json:"raw_input"`
}

// arguments are the text of the input.
func (c toolCall) arguments() string {
	if c.RawInput != "" {
		return c.RawInput
	}
	return string(c.Input)
}

// plain returns the input of a tool that takes plain text.
func (c toolCall) plain() (s string, ok bool) {
	err := json.Unmarshal(c.Input, &s)
	return s, err == nil
}

// usage is what a step bills. In holds neither cache reads nor cache writes.
type usage struct {
	In         int `json:"in"`
	Out        int `json:"out"`
	CacheRead  int `json:"cache_read"`
	CacheWrite int `json:"cache_write"`
	Reasoning  int `json:"reasoning"`
}

// pieceRunes is how many characters a piece of a streamed text has.
const pieceRunes = 24

// pieces are a text as it is streamed.
func pieces(text string) (out []string) {
	runes := []rune(text)
	for len(runes) > pieceRunes {
		out, runes = append(out, string(runes[:pieceRunes])), runes[pieceRunes:]
	}
	return append(out, string(runes))
}

// scriptIn finds the first #script in text: a JSON list of steps.
func scriptIn(text string) ([]step, bool) {
	_, after, ok := strings.Cut(text, "#script ")
	if !ok {
		return nil, false
	}
	var steps []step
	if err := json.NewDecoder(strings.NewReader(after)).Decode(&steps); err != nil {
		return nil, false
	}
	return steps, true
}

// stepAt returns the n-th step; after the last one the model says "Done.".
func stepAt(steps []step, n int) step {
	if n >= 0 && n < len(steps) {
		return steps[n]
	}
	return step{Text: "Done."}
}

// recall replies from the system prompt: reported are the texts before the conversation.
func (s step) recall(reported ...string) step {
	if s.Recall == "" {
		return s
	}
	s.Text = "I was not told."
	for line := range strings.Lines(strings.Join(reported, "\n")) {
		if strings.Contains(line, s.Recall) {
			s.Text = strings.TrimSpace(line)
			break
		}
	}
	return s
}

// begin waits before a step and gives its error. It reports whether an answer follows. Key names the step.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, st *step, key string, body func(typ, message string) any) bool {
	if !pause(r, st.DelayMS) {
		return false
	}
	f := st.Error
	if f == nil {
		return true
	}
	if f.Times > 0 {
		s.mu.Lock()
		s.failed[key]++
		n := s.failed[key]
		s.mu.Unlock()
		if n > f.Times {
			return true
		}
	}
	if f.Where != "" {
		st.fault = f
		return true
	}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatFloat(f.RetryAfter, 'f', -1, 64))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	_ = json.NewEncoder(w).Encode(body(f.Type, f.Message))
	return false
}

// refuse answers a request that the real API does not take.
func refuse(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(body)
}

// task is what #write asks for.
type task struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// taskIn finds the last #write in text.
func taskIn(text string) (task, bool) {
	i := strings.LastIndex(text, "#write ")
	if i < 0 {
		return task{}, false
	}
	var t task
	if err := json.NewDecoder(strings.NewReader(text[i+len("#write "):])).Decode(&t); err != nil || t.Path == "" {
		return task{}, false
	}
	return t, true
}

// conversation is what the model reads of a request, whichever API it came by.
type conversation struct {
	prompt   string // the last message of the user with a task or a script
	steps    []step
	said     int  // answers of the model since then, without those that are repeated
	again    bool // the last answer is repeated
	answered bool // a tool has, since then
}

// user reads a text of the user.
func (c *conversation) user(text string) {
	if _, ok := taskIn(text); ok {
		*c = conversation{prompt: text, said: c.said}
	}
	if steps, ok := scriptIn(text); ok {
		*c = conversation{prompt: text, steps: steps, answered: c.answered}
	}
}

// answer reads an answer of the model.
func (c *conversation) answer() {
	c.said++
	c.again = false
}

// result reads what a tool answered to the last step.
func (c *conversation) result(text string) {
	c.answered = true
	if !c.again && slices.ContainsFunc(stepAt(c.steps, c.said-1).Repeat, func(part string) bool { return strings.Contains(text, part) }) {
		c.said--
		c.again = true
	}
}

// plain is the step of a conversation without a script. Write makes the call for a task; nil without tools.
func (c *conversation) plain(write func(t task) (toolCall, bool)) step {
	st := step{Text: "Understood.", Usage: usage{In: 100, Out: 10}}
	if c.answered {
		st.Text = "Done."
		return st
	}
	if t, ok := taskIn(c.prompt); ok && write != nil {
		if call, ok := write(t); ok {
			st.Text, st.Tools = "", []toolCall{call}
		}
	}
	return st
}
