package secretfiles

import (
	"path"
	"strings"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/workspaces"
)

// Found returns what a search found in a file with secrets' values masked. false means that the file is a secret's.
func Found(secrets workspaces.SecretFiles, f guest.Found) (guest.Found, bool) {
	if HasSum(secrets, path.Clean(guest.DecodePath(f.Path)), "") {
		return f, false
	}
	texts := make([]string, len(f.Lines))
	for i, l := range f.Lines {
		texts[i] = l.Text + "\n"
	}
	for i, t := range MaskedLines(secrets, texts) {
		f.Lines[i].Text = strings.TrimSuffix(t, "\n")
	}
	return f, true
}

// Around returns at most that many bytes of a line around its match, and where in them the match begins. The ends of what the guest sent are left out
// of a longer line: a secret that was cut there was not masked.
func Around(l guest.FoundLine, most int) (text string, at int, before, after bool) {
	if len(l.Text) <= most && !l.Cut {
		return l.Text, l.At, false, false
	}
	from := max(min(l.At-most/5, len(l.Text)-most), 0)
	for from > 0 && from < len(l.Text) && l.Text[from]&0xC0 == 0x80 {
		from++
	}
	return strings.ToValidUTF8(l.Text[from:min(from+most, len(l.Text))], ""), max(l.At-from, 0), from > 0, true
}
