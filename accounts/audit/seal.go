package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Row is an entry as it is stored: with its actor, its position in its chain, and its seal.
type Row struct {
	Chain string
	Seq   int64 // 1, 2, ... without gaps
	ID    string
	At    int64 // ms UTC
	Source
	Action     string
	TargetKind string
	TargetID   string
	TargetName string
	Result     Result
	Code       string
	Data       map[string]string
	Seal       string // HMAC-SHA-256, hex
}

// form names the way entries are sealed. docs/audit.md says it for those who check seals with programs of their own.
const form = "parawork-audit-1"

// sealed returns what a row's seal is made of: each value as its length in bytes, a colon and the value, so that no two rows read
// the same.
func (r Row) sealed(previous string) []byte {
	var b []byte
	put := func(values ...string) {
		for _, v := range values {
			b = strconv.AppendInt(b, int64(len(v)), 10)
			b = append(b, ':')
			b = append(b, v...)
		}
	}
	put(form, previous, r.Chain, strconv.FormatInt(r.Seq, 10), r.ID, strconv.FormatInt(r.At, 10), r.Kind, r.ActorID, r.ActorName, r.Credential, r.IP,
		r.Action, r.TargetKind, r.TargetID, r.TargetName, string(r.Result), r.Code, r.RequestID, strconv.Itoa(len(r.Data)))
	for _, k := range slices.Sorted(maps.Keys(r.Data)) {
		put(k, r.Data[k])
	}
	return b
}

// sealWith returns the row's seal under a key, given the seal of the row before it in its chain.
func (r Row) sealWith(key []byte, previous string) string {
	m := hmac.New(sha256.New, key)
	m.Write(r.sealed(previous))
	return hex.EncodeToString(m.Sum(nil))
}

// fits reports which of the keys, from the first given on, sealed the row after the one with the previous seal; -1 = none.
func (r Row) fits(keys [][]byte, from int, previous string) int {
	for i := from; i < len(keys); i++ {
		if hmac.Equal([]byte(r.sealWith(keys[i], previous)), []byte(r.Seal)) {
			return i
		}
	}
	return -1
}

// Bounds of what an entry holds, in bytes.
const (
	maxText  = 300
	maxValue = 600
	maxFacts = 24
)

// plain makes one line of text that shows what it holds: what would break a line, hide or turn text around is written out as \u....
func plain(s string, most int) string {
	if !strings.ContainsFunc(s, hides) && utf8.ValidString(s) && len(s) <= most {
		return s
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		piece := string(r)
		if hides(r) {
			piece = `\u` + strings.ToUpper(strconv.FormatInt(0x10000+int64(r), 16)[1:])
			if r > 0xFFFF {
				piece = `\U` + strconv.FormatInt(int64(r), 16)
			}
		}
		if b.Len()+len(piece) > most-len("…") {
			b.WriteString("…")
			break
		}
		b.WriteString(piece)
	}
	return b.String()
}

// hides reports whether a character is not seen, or changes how others are seen: controls, line ends, marks of direction, tags.
func hides(r rune) bool {
	return r != ' ' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co))
}

// cleaned returns facts as they are stored.
func cleaned(data map[string]string) map[string]string {
	out := make(map[string]string, len(data))
	for _, k := range slices.Sorted(maps.Keys(data)) {
		if len(out) == maxFacts {
			break
		}
		out[plain(k, 64)] = plain(data[k], maxValue)
	}
	return out
}
