package providers

import (
	"bytes"
	"image"
	_ "image/gif" // sizes of images
	_ "image/jpeg"
	_ "image/png"
	"unicode/utf8"
)

// What tokens are estimated by.
const (
	charsPerToken = 4
	mostImage     = 1600 // tokens: providers make larger images smaller
	leastImage    = 85
	perMessage    = 4
)

// Estimate is about how many tokens a request has, without asking anybody: four letters a token, other characters one each.
func Estimate(req Request) int64 {
	n := int64(0)
	for _, s := range req.System {
		n += estimateText(s.Text)
	}
	for _, t := range req.Tools {
		n += perMessage + estimateText(t.Name) + estimateText(t.Description) + int64(len(t.Schema))/charsPerToken
	}
	for _, m := range req.Messages {
		n += perMessage + estimateParts(m.Parts)
	}
	return n
}

func estimateParts(parts []Part) (n int64) {
	for _, p := range parts {
		n += estimateText(p.Text) + estimateText(p.Name) + estimateText(p.RawArgs) + int64(len(p.Args))/charsPerToken + estimateParts(p.Content)
		switch p.Kind {
		case Image:
			n += estimateImage(p)
		case Reasoning: // what is encrypted is longer than what it says; the text is in it as well
			n += int64(max(0, len(p.Raw)-len(p.Text))) / (2 * charsPerToken)
		}
	}
	return n
}

func estimateText(s string) int64 {
	runes := utf8.RuneCountInString(s)
	multi := (len(s) - runes + 1) / 2 // about the characters that are not ASCII: they have two to four bytes
	return int64(max(0, runes-multi)+charsPerToken-1)/charsPerToken + int64(multi)
}

func estimateImage(p Part) int64 {
	if p.Width == 0 {
		c, _, err := image.DecodeConfig(bytes.NewReader(p.Data))
		if err != nil {
			return mostImage
		}
		p.Width, p.Height = c.Width, c.Height
	}
	return min(mostImage, max(leastImage, int64(p.Width)*int64(p.Height)/750))
}
