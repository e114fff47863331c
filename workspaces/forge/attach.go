package forge

import (
	"fmt"
	"strings"
	"time"

	"github.com/parawork/parawork/workspaces/git"
)

// The section of a description that lists artifacts stands between these. What is outside belongs to the people who wrote it.
const (
	artifactsBegin = "<!-- parawork:artifacts -->"
	artifactsEnd   = "<!-- /parawork:artifacts -->"
)

// longestName is how many characters of an artifact's name a description shows.
const longestName = 200

// withArtifacts puts the list of artifacts into a description: in place of the list it has, else at the end. Without artifacts the
// description stays as it is.
func withArtifacts(body string, artifacts []Attachment) string {
	if len(artifacts) == 0 {
		return body
	}
	section := artifactsSection(artifacts)
	if begin := strings.LastIndex(body, artifactsBegin); begin >= 0 {
		if length := strings.Index(body[begin:], artifactsEnd); length >= 0 {
			return body[:begin] + section + body[begin+length+len(artifactsEnd):]
		}
	}
	return strings.TrimLeft(strings.TrimRight(body, " \r\n")+"\n\n"+section, "\n")
}

func artifactsSection(artifacts []Attachment) string {
	var b strings.Builder
	b.WriteString(artifactsBegin + "\nArtifacts:\n\n")
	for _, a := range artifacts {
		fmt.Fprintf(&b, "- %s (%s, sha256 `%.12s`)", code(cut(clean(a.Name, len(a.Name)), longestName)), git.SizeWords(a.Size), a.SHA256)
		if a.URL != "" {
			fmt.Fprintf(&b, ", [download](<%s>) until %s UTC", a.URL, time.UnixMilli(a.ExpiresAt).UTC().Format("2006-01-02 15:04"))
		}
		b.WriteByte('\n')
	}
	b.WriteString("\n" + artifactsEnd)
	return b.String()
}

// code is one line of text as Markdown code, which the text cannot end: no forge reads mentions, references, links or HTML in it. The text
// cannot contain the markers of the section either.
func code(s string) string {
	s = strings.ReplaceAll(s, "<!--", "<\u200b!--")
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}
