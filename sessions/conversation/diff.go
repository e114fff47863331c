package conversation

import (
	"strconv"
	"strings"
)

// hunk is a hunk of a unified diff in Claude Code's format: lines with their sign.
type hunk struct {
	OldStart int      `json:"oldStart"`
	OldLines int      `json:"oldLines"`
	NewStart int      `json:"newStart"`
	NewLines int      `json:"newLines"`
	Lines    []string `json:"lines"`
}

// unified formats hunks as a unified diff without file names.
func unified(hunks []hunk) string {
	var b strings.Builder
	for _, h := range hunks {
		b.WriteString("@@ -" + strconv.Itoa(h.OldStart) + "," + strconv.Itoa(h.OldLines) + " +" + strconv.Itoa(h.NewStart) + "," + strconv.Itoa(h.NewLines) + " @@\n")
		for _, l := range h.Lines {
			if b.Len() > maxDiff {
				return b.String()
			}
			b.WriteString(strings.TrimSuffix(l, "\n"))
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// replaced formats the replacement of one text by another as a diff, for an edit that has no result yet.
func replaced(before, after string) string {
	var b strings.Builder
	signed(&b, '-', before)
	signed(&b, '+', after)
	return b.String()
}

// signed writes each line of text with a sign before it.
func signed(b *strings.Builder, sign byte, text string) {
	if text == "" {
		return
	}
	for l := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if b.Len() > maxDiff {
			return
		}
		b.WriteByte(sign)
		b.WriteString(l)
		b.WriteByte('\n')
	}
}

// counted returns how many lines a diff adds and removes.
func counted(diff string) (added, removed int) {
	for l := range strings.SplitSeq(diff, "\n") {
		switch {
		case strings.HasPrefix(l, "+"):
			added++
		case strings.HasPrefix(l, "-"):
			removed++
		}
	}
	return added, removed
}

// change is a patch's change to one file.
type change struct {
	path string
	diff string
}

// patched splits a patch in Codex' format ("*** Begin Patch") into its files.
func patched(patch string) []change {
	var out []change
	var b strings.Builder
	flush := func() {
		if len(out) > 0 {
			out[len(out)-1].diff = b.String()
		}
		b.Reset()
	}
	for l := range strings.SplitSeq(patch, "\n") {
		if l == "*** End Patch" || len(out) > 200 {
			break
		}
		if rest, ok := strings.CutPrefix(l, "*** "); ok {
			verb, file, ok := strings.Cut(rest, " File: ")
			if ok && (verb == "Add" || verb == "Update" || verb == "Delete") {
				flush()
				out = append(out, change{path: strings.TrimSpace(file)})
			}
			continue
		}
		if len(out) > 0 && b.Len() <= maxDiff {
			b.WriteString(l)
			b.WriteByte('\n')
		}
	}
	flush()
	return out
}
