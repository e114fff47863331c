package agents

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// toolInput holds the fields of the tools that both agents have.
type toolInput struct {
	Command     string `json:"command"`
	Description string `json:"description"`
	FilePath    string `json:"file_path"`
	Content     string `json:"content"`
	Old         string `json:"old_string"`
	New         string `json:"new_string"`
	Edits       []struct {
		Old string `json:"old_string"`
		New string `json:"new_string"`
	} `json:"edits"`
	URL   string `json:"url"`
	Query string `json:"query"`
	Plan  string `json:"plan"`
}

// toolAsk turns a request to use a tool into a permission question, without its options. cwd is where the agent works.
func toolAsk(tool string, raw json.RawMessage, cwd string) Ask {
	a := Ask{Kind: Permission, FreeText: true}
	var in toolInput
	_ = json.Unmarshal(raw, &in) // missing fields stay empty
	file := in.FilePath
	if rel, err := filepath.Rel(cwd, file); err == nil && filepath.IsAbs(file) && filepath.IsLocal(rel) {
		file = rel
	}
	switch {
	case tool == "apply_patch":
		a.Title, a.Detail = patchTitle(in.Command), in.Command
	case in.Command != "":
		first, _, more := strings.Cut(in.Command, "\n")
		if more {
			first += " …"
		}
		a.Title, a.Detail = "Run "+first+"?", in.Command
		if in.Description != "" {
			a.Detail += "\n\n" + in.Description
		}
	case tool == "Write" && file != "":
		a.Title, a.Detail = "Write "+file+"?", file+"\n"+diffLines("+", in.Content)
	case file != "" && (in.Old != "" || in.New != "" || len(in.Edits) > 0):
		a.Title, a.Detail = "Edit "+file+"?", file+"\n"
		if len(in.Edits) == 0 {
			a.Detail += diffLines("-", in.Old) + diffLines("+", in.New)
		}
		for _, e := range in.Edits {
			a.Detail += diffLines("-", e.Old) + diffLines("+", e.New) + "\n"
		}
	case file != "":
		a.Title, a.Detail = "Use "+toolName(tool)+" on "+file+"?", file
	case in.Plan != "":
		a.Title, a.Detail = "Go ahead with this plan?", in.Plan
	case in.URL != "":
		a.Title, a.Detail = "Fetch "+in.URL+"?", in.URL
	case in.Query != "":
		a.Title, a.Detail = "Search the web for "+in.Query+"?", in.Query
	default:
		a.Title, a.Detail = "Use "+toolName(tool)+"?", pretty(raw)
	}
	return a
}

// patchTitle names the files a Codex patch changes.
func patchTitle(patch string) string {
	var files []string
	for line := range strings.Lines(patch) {
		for _, mark := range []string{"*** Add File: ", "*** Update File: ", "*** Delete File: "} {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), mark); ok {
				files = append(files, name)
			}
		}
	}
	switch len(files) {
	case 0:
		return "Apply this change?"
	case 1:
		return "Change " + files[0] + "?"
	}
	return fmt.Sprintf("Change %s and %d more?", files[0], len(files)-1)
}

// diffLines puts a mark before each line, as in a diff.
func diffLines(mark, text string) string {
	if text == "" {
		return ""
	}
	return mark + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+mark) + "\n"
}

func pretty(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// toolName returns a tool's display name: those of MCP servers are mcp__server__tool.
func toolName(name string) string {
	if rest, ok := strings.CutPrefix(name, "mcp__"); ok {
		server, tool, ok := strings.Cut(rest, "__")
		if ok {
			return tool + " of " + server
		}
	}
	return cmp.Or(name, "a tool")
}
