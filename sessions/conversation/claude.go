package conversation

import (
	"cmp"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/parawork/parawork/sessions/usagelimit"
)

// claude reads Claude Code's transcripts, tested with 2.1.197: one JSON object per line; the lines of one answer of the model
// share its message.id and its usage.
type claude struct {
	side  bool // the record of a sub-agent
	turn  string
	usage string // identifies the usage entry of the turn
	early bool   // the turn began with an answer: its prompt may still be written
	spent Usage
	model map[string]Usage // usage by message of this turn, which each of its lines repeats
	begun int64

	asked    Reply  // reported in lines that may still change
	reported string // ID of the newest reported answer

	compacted string // parameters of the last compaction

	ahead map[string]ahead // results written before their calls, by call
}

// ahead is a result whose call has not been read yet.
type ahead struct {
	line  *claudeLine
	block claudeBlock
}

// maxAhead bounds how many results wait for their calls: calls that are in no known record never arrive.
const maxAhead = 16

type claudeLine struct {
	Type      string          `json:"type"`
	Subtype   string          `json:"subtype"`
	UUID      string          `json:"uuid"`
	Above     string          `json:"parentUuid"`
	Timestamp time.Time       `json:"timestamp"`
	Sidechain bool            `json:"isSidechain"`
	Meta      bool            `json:"isMeta"`
	Summary   bool            `json:"isCompactSummary"`
	PromptID  string          `json:"promptId"`
	RequestID string          `json:"requestId"`
	APIError  bool            `json:"isApiErrorMessage"`
	Message   claudeMessage   `json:"message"`
	Content   json.RawMessage `json:"content"` // of system lines
	Result    json.RawMessage `json:"toolUseResult"`
	Compact   struct {
		Trigger    string `json:"trigger"`
		PreTokens  int64  `json:"preTokens"`
		PostTokens int64  `json:"postTokens"`
	} `json:"compactMetadata"`
	Attachment struct {
		Type   string          `json:"type"`
		Prompt json.RawMessage `json:"prompt"`
		Mode   string          `json:"commandMode"`
	} `json:"attachment"`
	Error   json.RawMessage `json:"error"`
	Attempt int             `json:"retryAttempt"`
	Tries   int             `json:"maxRetries"`
}

type claudeMessage struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"`
	Stop    string          `json:"stop_reason"`
	Usage   struct {
		Input      int64 `json:"input_tokens"`
		Output     int64 `json:"output_tokens"`
		CacheRead  int64 `json:"cache_read_input_tokens"`
		CacheWrite int64 `json:"cache_creation_input_tokens"`
		Writes     struct {
			Hour int64 `json:"ephemeral_1h_input_tokens"`
		} `json:"cache_creation"`
	} `json:"usage"`
}

type claudeBlock struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	CallID   string          `json:"tool_use_id"`
	Content  json.RawMessage `json:"content"`
	IsError  bool            `json:"is_error"`
}

// claudeBlocks reads a message's content, which is a string or a list of blocks.
func claudeBlocks(raw json.RawMessage) []claudeBlock {
	if len(raw) > 0 && raw[0] == '"' {
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return nil
		}
		return []claudeBlock{{Type: "text", Text: s}}
	}
	var list []claudeBlock
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

func (c *claude) line(s *sink, _ int64, raw []byte) {
	var l claudeLine
	if json.Unmarshal(raw, &l) != nil {
		return
	}
	if l.Timestamp.Year() > 1970 {
		s.now(l.Timestamp.UnixMilli())
	}
	if l.UUID == "" {
		l.UUID = s.fallback(l.Type)
	}
	switch l.Type {
	case "user":
		c.user(s, &l)
	case "assistant":
		c.assistant(s, &l)
	case "system":
		c.system(s, &l)
	case "attachment":
		if l.Attachment.Type == "queued_command" && (l.Attachment.Mode == "" || l.Attachment.Mode == "prompt") {
			c.prompt(s, &l, claudeBlocks(l.Attachment.Prompt)) // typed while it worked
		}
	}
}

func (c *claude) system(s *sink, l *claudeLine) {
	switch l.Subtype {
	case "compact_boundary":
		text := "The conversation was made shorter"
		if l.Compact.Trigger == "auto" {
			text += " because it was about to outgrow the model"
		}
		c.compacted = text + "."
		s.put(Item{ID: l.UUID, Kind: Note, Topic: Compaction, Text: c.compacted})
		s.says(Compacted, "")
	case "turn_duration":
		if s.moment.Phase != Broken { // an error that ended the turn stays its end
			s.says(Done, "")
		}
	case "api_error":
		if l.Tries > 0 {
			s.put(Item{ID: l.UUID, Kind: Error, Status: Retrying, Text: claudeFault(l.Error)})
		}
	case "local_command":
		var text string
		if json.Unmarshal(l.Content, &text) == nil {
			c.command(s, l.UUID, text)
		}
	}
}

// claudeFault returns the error of an attempt as text.
func claudeFault(raw json.RawMessage) string {
	var e struct {
		Status  int    `json:"status"`
		Message string `json:"message"`
		Error   struct {
			Message string `json:"message"`
			Error   struct {
				Message string `json:"message"`
			} `json:"error"`
		} `json:"error"`
		Cause struct {
			Code string `json:"code"`
		} `json:"cause"`
	}
	_ = json.Unmarshal(raw, &e) // an error of another shape has no text
	text := "The model's service returned an error; the agent tries again."
	if msg := cmp.Or(e.Error.Error.Message, e.Error.Message, e.Message, e.Cause.Code); msg != "" {
		text += " " + msg
	}
	return text
}

// claudeTag finds the tags Claude Code itself wraps around text that no person typed.
var claudeTag = regexp.MustCompile(`(?s)^\s*<(system-reminder|local-command-caveat|task-notification|ide_[a-z_]+)>.*?</(system-reminder|local-command-caveat|task-notification|ide_[a-z_]+)>\s*`)

func (c *claude) user(s *sink, l *claudeLine) {
	blocks := claudeBlocks(l.Message.Content)
	var said []claudeBlock
	for _, b := range blocks {
		if b.Type == "tool_result" {
			c.result(s, l, b)
			continue
		}
		said = append(said, b)
	}
	switch {
	case l.Meta || len(said) == 0:
	case l.Summary:
		// The summary has its own line below the one that announces it.
		s.put(Item{ID: cmp.Or(l.Above, l.UUID), Kind: Note, Topic: Compaction, Text: cmp.Or(c.compacted, "The conversation was made shorter."), Output: joined(said)})
	default:
		c.prompt(s, l, said)
	}
}

func joined(blocks []claudeBlock) string {
	var parts []string
	for _, b := range blocks {
		switch b.Type {
		case "text":
			parts = append(parts, b.Text)
		case "image":
			parts = append(parts, "[image]")
		case "document":
			parts = append(parts, "[document]")
		}
	}
	return strings.Join(parts, "\n")
}

// prompt takes what a person typed, or what Claude Code says on a person's behalf.
func (c *claude) prompt(s *sink, l *claudeLine, blocks []claudeBlock) {
	text := joined(blocks)
	for {
		rest := claudeTag.ReplaceAllString(text, "")
		if rest == text {
			break
		}
		text = rest
	}
	switch {
	case strings.TrimSpace(text) == "":
	case strings.HasPrefix(text, "[Request interrupted by user"):
		s.put(Item{ID: l.UUID, Kind: Note, Topic: Interrupt, Text: "Interrupted."})
		s.close(Stopped)
		s.says(Halted, "")
	case c.command(s, l.UUID, text):
	default:
		if !c.side {
			c.start(s, cmp.Or(l.PromptID, l.UUID))
		}
		s.put(Item{ID: l.UUID, Kind: Prompt, Text: text})
		s.says(Began, "")
	}
}

var claudeElement = regexp.MustCompile(`(?s)<(command-name|command-args|local-command-stdout|local-command-stderr|bash-input|bash-stdout|bash-stderr)>(.*?)</(command-name|command-args|local-command-stdout|local-command-stderr|bash-input|bash-stdout|bash-stderr)>`)

// command takes a command of Claude Code's own, or its output. It returns false when text is something else.
func (c *claude) command(s *sink, id, text string) bool {
	if !strings.HasPrefix(strings.TrimSpace(text), "<") {
		return false
	}
	found := claudeElement.FindAllStringSubmatch(text, 8)
	if len(found) == 0 {
		return false
	}
	var typed, out []string
	for _, f := range found {
		body := strings.TrimSpace(f[2])
		switch f[1] {
		case "command-name", "command-args":
			typed = append(typed, body)
		case "bash-input":
			typed = append(typed, "! "+body)
		default:
			if body != "" {
				out = append(out, body)
			}
		}
	}
	if said := strings.TrimSpace(strings.Join(typed, " ")); said != "" {
		s.put(Item{ID: id, Kind: Prompt, Text: said})
	}
	if len(out) > 0 {
		if len(typed) > 0 {
			id += ".out"
		}
		s.put(Item{ID: id, Kind: Note, Topic: Output, Text: strings.Join(out, "\n")})
	}
	return true
}

func (c *claude) assistant(s *sink, l *claudeLine) {
	blocks := claudeBlocks(l.Message.Content)
	if l.APIError {
		text := joined(blocks)
		s.put(Item{ID: l.UUID, Kind: Error, Status: Failed, Text: text})
		s.says(Broken, text)
		s.stopped(usagelimit.OfClaude(word(l.Error), text, time.UnixMilli(s.at)))
		return
	}
	defer c.count(s, l)
	for i, b := range blocks {
		id := l.UUID
		if i > 0 {
			id += "." + string(rune('a'+i%26))
		}
		switch b.Type {
		case "text":
			if text := strings.TrimSpace(b.Text); text != "" && !(l.Message.Model == "<synthetic>" && text == "No response requested.") {
				s.put(Item{ID: id, Kind: Text, Text: text})
			}
		case "thinking":
			if text := strings.TrimSpace(b.Thinking); text != "" {
				s.put(Item{ID: id, Kind: Thinking, Text: text})
			}
		case "tool_use", "server_tool_use":
			c.call(s, b)
		}
	}
	switch l.Message.Stop {
	case "end_turn", "stop_sequence", "max_tokens", "refusal":
		if !l.Sidechain {
			s.says(Done, "")
		}
	}
}

// start begins a turn.
func (c *claude) start(s *sink, id string) {
	switch {
	case id == c.turn:
	case c.early && s.at <= c.begun: // its prompt was written after its first answer
		c.turn, c.begun = id, s.at
	default:
		c.turn, c.usage, c.spent, c.model, c.begun = id, id, Usage{}, map[string]Usage{}, s.at
	}
	c.early = false
}

// maxMessages bounds the messages of one turn whose usage is remembered, for lines that repeat it.
const maxMessages = 20000

// count adds the usage of a message once, no matter how many lines it has.
func (c *claude) count(s *sink, l *claudeLine) {
	u := Usage{Input: l.Message.Usage.Input, Output: l.Message.Usage.Output, CacheRead: l.Message.Usage.CacheRead,
		CacheWrite: l.Message.Usage.CacheWrite, Model: l.Message.Model}
	if l.Message.ID == "" || u.empty() || u.Model == "<synthetic>" {
		return
	}
	if c.model == nil {
		c.start(s, cmp.Or(l.PromptID, l.UUID))
		c.early = true
	}
	key := l.Message.ID + "/" + l.RequestID
	c.answer(s, strings.Trim(l.Message.ID+"."+l.RequestID, "."), l, u)
	if len(c.model) >= maxMessages {
		return
	}
	if before := c.model[key]; before != u {
		c.model[key] = u
		c.spent.sub(before)
		c.spent.add(u)
	}
	spent := c.spent
	s.put(Item{ID: "usage-" + s.file + c.usage, Kind: Spent, Usage: &spent, Duration: max(s.at-c.begun, 0)})
}

// answer takes a line's part of an answer. Its usage may still grow while no line says how it ended.
func (c *claude) answer(s *sink, key string, l *claudeLine, u Usage) {
	if c.asked.ID != key {
		c.rest(s)
	}
	if c.reported == key {
		return
	}
	c.asked = Reply{ID: key, Model: u.Model, Usage: u, Hour: l.Message.Usage.Writes.Hour, At: s.at}
	if l.Message.Stop != "" {
		c.rest(s)
	}
}

func (c *claude) rest(s *sink) {
	if c.asked.ID != "" {
		s.reply(c.asked)
		c.reported, c.asked = c.asked.ID, Reply{}
	}
}

// parentOf reads which tool call started the sub-agent whose record this is; "" when it is not recorded.
func parentOf(src Source, name string) string {
	f, err := src.Open(strings.TrimSuffix(name, ".jsonl") + ".meta.json")
	if err != nil {
		return ""
	}
	defer f.Close()
	raw, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<10))
	if err != nil {
		return ""
	}
	var meta struct {
		Call string `json:"toolUseId"`
	}
	if json.Unmarshal(raw, &meta) != nil {
		return ""
	}
	return meta.Call
}
