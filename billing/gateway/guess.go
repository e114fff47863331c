package gateway

import (
	"bytes"
	"time"

	"github.com/parawork/parawork/billing/tokens"
)

// Where a provider does not report the usage, the gateway estimates it, rather too high than too low, and the budget counts the estimate. Else
// an agent that breaks off answers before their end would use models for nothing. Estimates are never shown as usage.
const (
	guessBytes = 3    // of text in a token; four are usual
	guessRun   = 4096 // bytes without a break are no text but a picture or the like...
	guessFile  = 2000 // ...which takes about so many tokens, however many bytes it has
	// guessSecond is how many tokens come out in a second, shown or not: what a model thinks is often kept to itself.
	guessSecond = 50
)

// guessPrompt is how many tokens the body of a request may be.
func guessPrompt(body []byte) (n int64) {
	text, run := int64(0), int64(0)
	end := func() {
		if run >= guessRun {
			n += guessFile
		} else {
			text += run
		}
		run = 0
	}
	for _, c := range body {
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '+' || c == '/' || c == '-' || c == '_' || c == '=':
			run++
		default:
			end()
			text++
		}
	}
	end()
	return n + text/guessBytes
}

// guess notes what may have been used where the answer does not say it. t is who read it, nil where nobody could; read is how many bytes came.
func (c *call) guess(t tally, read int64) {
	if c.begun != nil {
		<-c.begun // the prompt is guessed beside the question
	}
	out := read / guessBytes
	if t != nil {
		out = t.seen()
	}
	out = max(out, int64(time.Since(c.asking)/time.Second)*guessSecond)
	if c.route.api == embeddings {
		out = 0
	}
	c.record.Guess = tokens.Tokens{Input: new(c.prompt), Output: new(out)}
}

// textTokens is how many tokens a piece of an answer may be, by the bytes it has as JSON.
func textTokens(raw []byte) int64 { return max(int64(len(raw)-2)/guessBytes, 1) }

// outsideTokens is allowed for what goes in beside the body: earlier answers, files, what the provider's own tools find. It is no bound:
// nothing says how much that is.
const outsideTokens = 100_000

const (
	packedPicture  = 5_000   // tokens a picture takes at most, however many bytes it has
	packedDocument = 100_000 // and a document, about
)

// boundPrompt is how many tokens the body of a request has at most. A token has a byte at least; of letters and of blanks, two: every
// provider's vocabulary holds all pairs of them. What stands there in base64 is a picture or a document, which has its tokens by the page.
func boundPrompt(body []byte) (n int64) {
	for i := 0; i < len(body); {
		c, j := body[i], i+1
		if letter(c) || c == ' ' {
			for j < len(body) && (body[j] == c || letter(c) && letter(body[j])) {
				j++
			}
			n += int64(j-i+1) / 2
			i = j
			continue
		}
		n++
		if c == '"' && bytes.HasSuffix(bytes.TrimRight(body[max(i-16, 0):i], " "), []byte(`"data":`)) || c == ',' && bytes.HasSuffix(body[:i], []byte(";base64")) {
			for j < len(body) && (letter(body[j]) || '0' <= body[j] && body[j] <= '9' || body[j] == '+' || body[j] == '/' || body[j] == '=') {
				j++
			}
			most := int64(packedPicture)
			if bytes.Contains(body[max(i-256, 0):i], []byte("/pdf")) {
				most = packedDocument
			}
			n += min(int64(j-i), most)
		}
		i = j
	}
	return n
}

func letter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
