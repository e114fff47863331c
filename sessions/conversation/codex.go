package conversation

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/sessions/usagelimit"
)

// codex reads Codex' rollouts, tested with 0.169.0: one JSON object per line. Messages come as events: as items (item_completed),
// in older versions as separate events. Tool calls come as items of the model's answer; the results of tools come as events too,
// which hold more: exit codes and diffs.
type codex struct {
	items  bool   // the record has item_completed
	last   string // text of the newest event of the older form
	turn   string
	began  int64
	model  string
	spent  map[string]Usage    // by response
	all    Usage               // their sum
	script []string            // open calls of scripts, which run tools themselves; the newest last
	patch  map[string][]string // edits of a call with several files

	windows []usagelimit.Window // of the account, as last reported
}

type codexLine struct {
	Timestamp time.Time       `json:"timestamp"`
	Type      string          `json:"type"`
	Payload   json.RawMessage `json:"payload"`
}

func (c *codex) line(s *sink, _ int64, raw []byte) {
	var l codexLine
	if json.Unmarshal(raw, &l) != nil {
		return
	}
	if l.Timestamp.Year() > 1970 {
		s.now(l.Timestamp.UnixMilli())
	}
	switch l.Type {
	case "response_item":
		c.response(s, l.Payload)
	case "event_msg":
		c.event(s, l.Payload)
	case "token_usage_record":
		c.usage(s, l.Payload)
	case "turn_context":
		var t struct {
			Turn  string `json:"turn_id"`
			Model string `json:"model"`
		}
		if json.Unmarshal(l.Payload, &t) == nil {
			c.start(s, t.Turn)
			c.model = cmp.Or(t.Model, c.model)
		}
	case "compacted":
		var t struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(l.Payload, &t) // one without text is still a compaction
		s.put(Item{ID: s.fallback("compacted"), Kind: Note, Topic: Compaction, Text: "The conversation was made shorter.", Output: t.Message})
		s.says(Compacted, "")
	}
}

// start begins a turn.
func (c *codex) start(s *sink, turn string) {
	if turn == "" || turn == c.turn {
		return
	}
	c.turn, c.began, c.spent, c.all, c.script = turn, s.at, map[string]Usage{}, Usage{}, nil
}

type codexEvent struct {
	Type    string          `json:"type"`
	Turn    string          `json:"turn_id"`
	Message json.RawMessage `json:"message"`
	Text    string          `json:"text"`
	Reason  string          `json:"reason"`
	Error   *struct {
		Message string          `json:"message"`
		Info    json.RawMessage `json:"codex_error_info"`
	} `json:"error"`
	ErrorInfo json.RawMessage `json:"codex_error_info"`
	Item      codexItem       `json:"item"`
	Info      *struct {
		Last codexTokens `json:"last_token_usage"`
	} `json:"info"`
	Limits json.RawMessage `json:"rate_limits"`
}

type codexTokens struct {
	Input      int64 `json:"input_tokens"`
	Cached     int64 `json:"cached_input_tokens"`
	CacheWrite int64 `json:"cache_write_input_tokens"`
	Output     int64 `json:"output_tokens"`
	Reasoning  int64 `json:"reasoning_output_tokens"`
}

// usage counts cached input separately, which Codex counts twice.
func (t codexTokens) usage() Usage {
	return Usage{Input: max(t.Input-t.Cached-t.CacheWrite, 0), CacheRead: t.Cached, CacheWrite: t.CacheWrite, Output: t.Output, Reasoning: t.Reasoning}
}

type codexItem struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Content []struct {
		Text string `json:"text"`
		Type string `json:"type"`
	} `json:"content"`
	Summary  []string        `json:"summary_text"`
	Command  json.RawMessage `json:"command"`
	Output   string          `json:"aggregated_output"`
	ExitCode *int            `json:"exit_code"`
	Status   string          `json:"status"`
	Changes  map[string]struct {
		Type    string `json:"type"`
		Content string `json:"content"`
		Diff    string `json:"unified_diff"`
		Move    string `json:"move_path"`
	} `json:"changes"`
	Stderr    string          `json:"stderr"`
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Result    json.RawMessage `json:"result"`
	Error     json.RawMessage `json:"error"`
	Query     string          `json:"query"`
	Text      string          `json:"text"`
}

func (i codexItem) said() string {
	parts := make([]string, 0, len(i.Content))
	for _, p := range i.Content {
		switch {
		case p.Text != "":
			parts = append(parts, p.Text)
		case strings.Contains(strings.ToLower(p.Type), "image"):
			parts = append(parts, "[image]")
		}
	}
	return strings.TrimSpace(strings.Join(parts, "\n"))
}

func (c *codex) event(s *sink, raw json.RawMessage) {
	var e codexEvent
	if json.Unmarshal(raw, &e) != nil {
		return
	}
	switch e.Type {
	case "task_started", "turn_started":
		c.start(s, e.Turn)
		s.says(Began, "")
	case "task_complete", "turn_complete":
		if e.Error != nil {
			c.fail(s, e.Error.Message, e.Error.Info)
			return
		}
		s.close(Stopped)
		s.says(Done, "")
	case "turn_aborted":
		s.close(Stopped)
		text := "Interrupted."
		if e.Reason != "" && e.Reason != "interrupted" {
			text = "The turn was ended: " + strings.ReplaceAll(e.Reason, "_", " ") + "."
		}
		s.put(Item{ID: s.fallback("aborted"), Kind: Note, Topic: Interrupt, Text: text})
		s.says(Halted, "")
	case "error":
		var text string
		if json.Unmarshal(e.Message, &text) == nil {
			c.fail(s, text, e.ErrorInfo)
		}
	case "stream_error":
		var text string
		if json.Unmarshal(e.Message, &text) == nil && text != "" {
			s.put(Item{ID: s.fallback("stream"), Kind: Error, Status: Retrying, Text: text})
		}
	case "token_count":
		c.counted(s, e)
	case "user_message", "agent_message", "agent_reasoning":
		c.older(s, e)
	case "item_completed":
		c.item(s, e.Item)
	}
}

// fail takes an error that ended the turn.
func (c *codex) fail(s *sink, text string, info json.RawMessage) {
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(text), &body) == nil && body.Error.Message != "" {
		text = body.Error.Message
	}
	s.close(Stopped)
	s.put(Item{ID: s.fallback("error"), Kind: Error, Status: Failed, Text: cmp.Or(text, "The turn ended with an error.")})
	s.says(Broken, text)
	s.stopped(usagelimit.OfCodex(word(info), c.windows, time.UnixMilli(s.at)))
}

// older takes an event of versions without items.
func (c *codex) older(s *sink, e codexEvent) {
	var text string
	if json.Unmarshal(e.Message, &text) != nil {
		text = e.Text
	}
	if text = strings.TrimSpace(text); text == "" || c.items {
		return
	}
	c.last = text
	switch e.Type {
	case "user_message":
		s.put(Item{ID: s.fallback("prompt"), Kind: Prompt, Text: text})
	case "agent_message":
		s.put(Item{ID: s.fallback("text"), Kind: Text, Text: text})
	case "agent_reasoning":
		s.put(Item{ID: s.fallback("thinking"), Kind: Thinking, Text: text})
	}
}

func (c *codex) item(s *sink, it codexItem) {
	id := it.ID
	if id == "" {
		id = s.fallback("item")
	}
	said := func(kind Kind, text string) {
		before := c.items
		c.items = true
		if text == "" || !before && text == c.last {
			return
		}
		s.put(Item{ID: id, Kind: kind, Text: text})
	}
	switch it.Type {
	case "UserMessage":
		said(Prompt, it.said())
	case "AgentMessage":
		said(Text, it.said())
	case "Plan":
		said(Text, cmp.Or(it.said(), it.Text))
	case "Reasoning":
		said(Thinking, strings.TrimSpace(strings.Join(it.Summary, "\n\n")))
	case "CommandExecution":
		c.executed(s, id, it)
	case "FileChange":
		c.edited(s, id, it)
	case "McpToolCall":
		c.asked(s, id, it)
	}
}

// usage takes the usage of one answer of the model; the same answer counts once.
func (c *codex) usage(s *sink, raw json.RawMessage) {
	var r struct {
		Turn     string      `json:"turn_id"`
		Response string      `json:"response_id"`
		Usage    codexTokens `json:"usage"`
	}
	if json.Unmarshal(raw, &r) != nil || r.Response == "" {
		return
	}
	c.start(s, r.Turn)
	c.spend(s, r.Response, r.Usage.usage())
}

// rest: an answer's usage is written once it is complete.
func (c *codex) rest(*sink) {}

// counted takes the count of versions that do not write usage per answer.
func (c *codex) counted(s *sink, e codexEvent) {
	var limits *struct {
		Primary   *usagelimit.Window `json:"primary"`
		Secondary *usagelimit.Window `json:"secondary"`
	}
	if json.Unmarshal(e.Limits, &limits) == nil && limits != nil { // those of another shape cost no count
		c.windows = nil
		for _, w := range [...]*usagelimit.Window{limits.Primary, limits.Secondary} {
			if w != nil {
				c.windows = append(c.windows, *w)
			}
		}
	}
	if e.Info == nil {
		return
	}
	for id := range c.spent {
		if !strings.HasPrefix(id, "count-") {
			return // usage per answer is exact
		}
	}
	c.spend(s, "count-"+strconv.FormatInt(s.off, 10), e.Info.Last.usage())
}

func (c *codex) spend(s *sink, response string, u Usage) {
	if c.turn == "" || u.empty() || c.spent[response] == u || len(c.spent) >= maxMessages {
		return
	}
	c.all.sub(c.spent[response])
	c.all.add(u)
	c.spent[response] = u
	all := c.all
	all.Model = c.model
	id := response
	if strings.HasPrefix(id, "count-") { // an offset identifies it within this record only
		id = s.record + "-" + id
	}
	s.reply(Reply{ID: id, Model: c.model, Usage: u, At: s.at})
	s.put(Item{ID: "usage-" + c.turn, Kind: Spent, Usage: &all, Duration: max(s.at-c.began, 0)})
}
