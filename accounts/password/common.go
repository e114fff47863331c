package password

import (
	_ "embed"
	"strings"
	"sync"
	"unicode"
)

// commonWords are the words that the passwords people choose most are made of.
//
//go:embed commonwords.txt
var commonWords string

var wordSet = sync.OnceValue(func() map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(commonWords) {
		set[w] = true
	}
	return set
})

// walks are rows and columns of keyboards, and what is counted up; pieces of them are typed without thinking, in either direction.
var walks = []string{
	"1234567890", "01234567890", "abcdefghijklmnopqrstuvwxyz", "qwertyuiop[]", "asdfghjkl;'", "zxcvbnm,./", "qwertzuiop", "yxcvbnm", "azertyuiop", "qsdfghjklm", "wxcvbn",
	"1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik,9ol.0p", "qazwsxedcrfvtgbyhnujmikolp", "1q2w3e4r5t6y7u8i9o0p", "q1w2e3r4t5y6u7i8o9p0", "zaq1xsw2cde3vfr4bgt5nhy6mju7", "1qazxsw23edcvfr4",
	"!@#$%^&*()", "147258369", "741852963", "159357", "789456123", "qweasdzxc", "qweasdzxcrtyfghvbn", "asdfasdf", "qwerasdfzxcv",
}

// Bounds of what counts as made of little: a password that is covered by so few pieces is among the first that are tried.
const (
	commonPieces = 4  // words, walks, repeats, numbers and signs
	commonLength = 40 // bytes; longer ones are not looked at
)

// isCommon reports whether a password, in lower case, is made of very little: of one or two words that everybody uses, with letters
// written as digits or signs or not, of keys side by side, of a number or signs, repeated or not. The most used passwords of ten characters
// and more are of this form, with all the years and exclamation marks that lists of them lack.
// own are words that are as easily guessed for this user, any number of them.
func isCommon(lower string, own map[string]bool) bool {
	if len(lower) > commonLength {
		return false
	}
	if half := repeats(lower); half != "" {
		lower = half
	}
	// best[i] is how many pieces cover the first i bytes at least; words counts those of them that are words.
	type state struct{ pieces, words int }
	best := make([]state, len(lower)+1)
	for i := 1; i <= len(lower); i++ {
		best[i] = state{1 << 10, 0}
		for j := range i {
			cost, word := piece(lower[j:i], own)
			if cost == 0 {
				continue
			}
			s := state{best[j].pieces + cost, best[j].words + word}
			if s.words <= 2 && s.pieces < best[i].pieces {
				best[i] = s
			}
		}
	}
	return best[len(lower)].pieces <= commonPieces
}

// repeats returns what a text is made of by repeating it, "" where it repeats nothing.
func repeats(s string) string {
	for n := 1; n <= len(s)/2; n++ {
		if len(s)%n == 0 && strings.Repeat(s[:n], len(s)/n) == s {
			return s[:n]
		}
	}
	return ""
}

// piece returns how many pieces a part of a password counts as, 0 where it is none, and whether it is a word.
func piece(s string, own map[string]bool) (cost, word int) {
	switch {
	case len(s) == 1 && s[0] >= 'a' && s[0] <= 'z', len(s) <= 4 && strings.Trim(s, "0123456789") == "": // a letter, a year, a number
		return 1, 0
	case len(s) <= 3 && strings.Trim(s, "!@#$%^&*()-_=+.,;:?/ ") == "":
		return 1, 0
	case len(s) >= 3 && isWalk(s), len(s) >= 3 && strings.Count(s, s[:1]) == len(s):
		return 1, 0
	case own[s] || own[leet.Replace(s)]:
		return 1, 0
	case isWord(s):
		return 1, 1
	}
	return 0, 0
}

// ownWords are the words of names and addresses, in lower case; short ones are in many a password by chance.
func ownWords(names []string) map[string]bool {
	own := map[string]bool{}
	for _, name := range names {
		for _, w := range strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) }) {
			if len(w) >= 3 {
				own[w] = true
			}
		}
	}
	return own
}

func isWalk(s string) bool {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	for _, w := range walks {
		if strings.Contains(w, s) || strings.Contains(w, string(b)) {
			return true
		}
	}
	return false
}

var (
	leet  = strings.NewReplacer("@", "a", "4", "a", "3", "e", "0", "o", "$", "s", "5", "s", "7", "t", "1", "i", "!", "i", "8", "b")
	leetL = strings.NewReplacer("1", "l", "!", "l", "@", "a", "4", "a", "3", "e", "0", "o", "$", "s", "5", "s", "7", "t", "8", "b")
)

func isWord(s string) bool {
	set := wordSet()
	return set[s] || set[leet.Replace(s)] || set[leetL.Replace(s)]
}
