package files

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/tools"
)

// schema is the closed schema of an object.
func schema(required, properties string) json.RawMessage {
	return json.RawMessage(`{"type": "object", "additionalProperties": false, "required": [` + required + `], "properties": {` + properties + `}}`)
}

const (
	pathProperty = `"path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "The file: relative to the worktree, or absolute below it."}`
	hidden       = `"hidden": {"type": "boolean", "default": false, "description": "Also names that begin with a dot."},
	"ignored": {"type": "boolean", "default": false, "description": "Also files that git ignores, such as installed packages."}`
	oldNew = `"old": {"type": "string", "minLength": 1, "maxLength": 500000, "description": "The text to replace, exactly as in the file, without line numbers."},
	"new": {"type": "string", "maxLength": 500000, "description": "The text to put in its place."},
	"replace_all": {"type": "boolean", "default": false, "description": "Replace every place where it occurs."}`
)

var changeResult = schema(`"path", "created", "changed", "additions", "deletions", "size", "hash", "diff", "diff_cut"`,
	`"path": {"type": "string"}, "created": {"type": "boolean"}, "changed": {"type": "boolean"}, "additions": {"type": "integer"}, "deletions": {"type": "integer"},
	"size": {"type": "integer"}, "hash": {"type": "string"}, "diff": {"type": "string"}, "diff_cut": {"type": "boolean"}`)

var findResult = schema(`"files", "total_files", "matches", "complete"`,
	`"files": {"type": "array", "items": {"type": "object", "additionalProperties": false, "required": ["path", "size", "mtime", "matches"],
		"properties": {"path": {"type": "string"}, "size": {"type": "integer"}, "mtime": {"type": "integer"}, "matches": {"type": "integer"}}}},
	"total_files": {"type": "integer"}, "matches": {"type": "integer"}, "complete": {"type": "boolean"}`)

func limit(what string, usual int) string {
	return fmt.Sprintf(`"limit": {"type": "integer", "minimum": 1, "maximum": %d, "default": %d, "description": "The most %s to answer with."}`, guest.MaxFound, usual, what)
}

// spec describes a tool of the group. None is listed: agents that speak MCP have their own.
func spec(name, title, description string, arguments, result json.RawMessage, writes bool, positional ...string) tools.Spec {
	s := tools.Spec{Name: name, Title: title, Description: description, Group: "files", Arguments: arguments, Result: result, Unlisted: true,
		Command: tools.Command{Positional: positional}, Needs: tools.Needs{Workspace: true, Writes: writes}, Permission: tools.Allow, Timeout: 2 * time.Minute}
	if writes {
		s.Permission = tools.Ask
	}
	return s
}

// Tools returns what agents call.
func (s *Service) Tools() []tools.Tool {
	read := spec("file_read", "Read a file", "Reads a file of the worktree and answers with its lines, each after its number and a tab; images are shown, folders are listed. "+
		"Of a long file it answers with the first 2,000 lines and says how to read on. Read a file before you change it.",
		schema(`"path"`, pathProperty+`, "offset_line": {"type": "integer", "minimum": 1, "default": 1, "description": "The first line to read."},
		"limit_lines": {"type": "integer", "minimum": 1, "maximum": 2000, "default": 2000, "description": "How many lines to read."}`),
		schema(`"path", "kind", "size"`, `"path": {"type": "string"}, "kind": {"enum": ["text", "image", "binary", "folder"]}, "size": {"type": "integer"}, "mime": {"type": "string"},
		"first_line": {"type": "integer"}, "last_line": {"type": "integer"}, "total_lines": {"type": "integer"}`), false, "path", "offset_line", "limit_lines")
	write := spec("file_write", "Write a file", "Writes a whole file of the worktree, and makes its folders. Use it for new files; to change parts of one use file_edit. "+
		"A file that exists must have been read, and not have changed since. Answers with a diff.",
		schema(`"path", "content"`, pathProperty+`, "content": {"type": "string", "maxLength": 1000000, "description": "The whole content."}`), changeResult, true, "path", "content")
	write.Command.Stdin = "content"
	edit := spec("file_edit", "Edit a file", "Replaces a text in a file that you have read: old must occur exactly once, with its white space, unless replace_all is set. "+
		"It is refused when the file has changed since you read it. Line ends and the file's mode are kept. Answers with a diff.",
		schema(`"path", "old", "new"`, pathProperty+`, `+oldNew), changeResult, true, "path", "old", "new")
	multi := spec("file_multi_edit", "Edit a file in several places", "Replaces several texts in one file, one after the other, as file_edit does: all of them, or none when one cannot be replaced. Answers with a diff.",
		schema(`"path", "edits"`, pathProperty+`, "edits": {"type": "array", "minItems": 1, "maxItems": 100, "description": "The replacements, in order; each sees what the earlier ones made.",
		"items": {"type": "object", "additionalProperties": false, "required": ["old", "new"], "properties": {`+oldNew+`}}}`), changeResult, true, "path")
	glob := spec("glob", "Find files by name", "Finds files of the worktree by their paths, newest first, such as **/*_test.go or src/**/*.{ts,tsx}. A pattern without a slash is about names in any folder. "+
		"Leaves out what git ignores, and hidden files.",
		schema(`"pattern"`, `"pattern": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "The pattern: * and ? within a name, ** across folders, {a,b} for either."},
		"root": {"type": "string", "maxLength": 4096, "description": "The folder to search, relative to the worktree; the pattern is relative to it."}, `+hidden+`, `+limit("files", globLimit)), findResult, false, "pattern", "root")
	grep := spec("grep", "Find text in files", "Finds lines in the files of the worktree by a regular expression (RE2), and answers with paths, line numbers and lines. "+
		"Leaves out what git ignores, hidden files and binary files. Mode files answers with paths alone, newest first; count with numbers of lines.",
		schema(`"pattern"`, `"pattern": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "The expression; it matches within a line."},
		"path": {"type": "string", "maxLength": 4096, "description": "The folder or file to search, relative to the worktree."},
		"glob": {"type": "string", "maxLength": 4096, "description": "Only files whose paths fit, such as *.go."},
		"ignore_case": {"type": "boolean", "default": false, "description": "Upper and lower case are the same."},
		"context": {"type": "integer", "minimum": 0, "maximum": 20, "default": 0, "description": "How many lines to show before and after each."},
		"mode": {"type": "string", "enum": ["content", "files", "count"], "default": "content", "description": "What to answer with."}, `+hidden+`, `+limit("lines or files", grepLimit)), findResult, false, "pattern", "path")
	return []tools.Tool{
		tools.Func(read, s.read), tools.Func(write, s.write),
		tools.Func(edit, func(ctx context.Context, c tools.Caller, a editArgs) (tools.Result, error) {
			return s.edit(ctx, c, a.Path, []replacement{a.replacement}, func(int) string { return "old" })
		}),
		tools.Func(multi, func(ctx context.Context, c tools.Caller, a multiArgs) (tools.Result, error) {
			return s.edit(ctx, c, a.Path, a.Edits, func(i int) string { return fmt.Sprintf("edits.%d.old", i) })
		}),
		tools.Func(glob, s.glob), tools.Func(grep, s.grep),
	}
}
