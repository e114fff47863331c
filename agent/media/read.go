package media

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
)

// ReadTool is the tool with which the agent reads on in what it was shown the ends of.
const ReadTool = "result_read"

// Tools returns it.
func Tools(s Store) []tools.Tool {
	return []tools.Tool{tools.Func(tools.Spec{
		Name: ReadTool, Title: "Read on in a long result", Group: "files", Unlisted: true, Permission: tools.Allow, Needs: tools.Needs{Workspace: true},
		Description: "Reads on in a long result, or in an attached text, of which you were shown the beginning and the end. " +
			"Answers with the text from an offset on and says where to read on, or with the lines that fit a pattern.",
		Arguments: json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["id"], "properties": {
			"id": {"type": "string", "minLength": 1, "maxLength": 64, "description": "The ID that the shortened text names: med_..."},
			"offset": {"type": "integer", "minimum": 0, "default": 0, "description": "The byte to begin at."},
			"pattern": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "A regular expression (RE2): answer with the lines that fit, from the offset on."}}}`),
		Result: json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["size", "next_offset"],
			"properties": {"size": {"type": "integer"}, "next_offset": {"type": "integer"}}}`),
		Command: tools.Command{Positional: []string{"id", "offset"}},
	}, reader{s}.read)}
}

type reader struct{ store Store }

type position struct {
	Size int `json:"size"`
	Next int `json:"next_offset"` // 0: that was all
}

func (r reader) read(ctx context.Context, c tools.Caller, a struct {
	ID      string `json:"id"`
	Offset  int    `json:"offset"`
	Pattern string `json:"pattern"`
}) (tools.Result, error) {
	m, err := r.store.Media(ctx, c.WorkspaceID, a.ID)
	if fault.Is(err, fault.NotFound) {
		return tools.Result{}, fault.New(fault.NotFound, "result_not_found", "There is no text %.64q any more. Call the tool again.", a.ID)
	}
	if err != nil {
		return tools.Result{}, err
	}
	if m.MIME != Text {
		return tools.Result{}, fault.New(fault.Invalid, "result_not_text", "%.64s is no text.", a.ID)
	}
	if a.Offset > len(m.Data) {
		return tools.Result{}, fault.New(fault.Invalid, "result_offset", "The text has only %d bytes.", len(m.Data)).With("field", "offset")
	}
	most := c.Limits.ResultBytes - 500
	rest := m.Data[a.Offset:]
	var text string
	next := 0
	if a.Pattern == "" {
		text = whole(rest, most)
		if next = a.Offset + len(text); next == len(m.Data) {
			next = 0
		}
	} else if text, next, err = lines(rest, a.Pattern, most); err != nil {
		return tools.Result{}, err
	} else if next > 0 {
		next += a.Offset
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	switch {
	case text == "":
		text = "[Nothing.]"
	case next > 0:
		text += fmt.Sprintf("\n[Bytes %d to %d of %d. Read on with offset %d.]", a.Offset, next, len(m.Data), next)
	}
	out, err := tools.Answer(text, position{len(m.Data), next})
	out.Truncated = next > 0
	return out, err
}

// whole is the beginning of a text, without half a character at its end.
func whole(text []byte, most int) string {
	if len(text) <= most {
		return string(text)
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return string(text[:most])
}

const longLine = 2000 // bytes of a line that is shown

// lines are those that fit a pattern, with their offsets, and where to read on.
func lines(text []byte, pattern string, most int) (found string, next int, err error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return "", 0, fault.New(fault.Invalid, "result_pattern", "The pattern is no regular expression: %.200s.", err).With("field", "pattern")
	}
	var out strings.Builder
	for at := 0; at < len(text); {
		line, _, _ := bytes.Cut(text[at:], []byte("\n"))
		if re.Match(line) {
			row := fmt.Sprintf("%d\t%s\n", at, whole(line, longLine))
			if out.Len()+len(row) > most {
				return out.String(), at, nil
			}
			out.WriteString(row)
		}
		at += len(line) + 1
	}
	return out.String(), 0, nil
}
