// Package textsearch finds texts by words, in Go: it is for texts of which there are few enough to look at all of them. So both databases
// rank alike, a part of an identifier is found, and so is a part of a sentence in a language that puts no spaces between words. Neither
// FTS5 nor tsvector does the last two.
package textsearch

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Query is what to look for.
type Query struct{ asked []term }

// Parse reads the words of a query.
func Parse(query string) Query { return Query{askedOf(query)} }

// Score counts the words of the query that a text has: a whole word twice, the beginning of one once, in its name three times as much. 0:
// it has none.
func (q Query) Score(name, text string) (n int) {
	names, words := wordsOf(name), wordsOf(text)
	for _, t := range q.asked {
		n += 3*best(t, names) + best(t, words)
	}
	return n
}

// mostTerms of a query count in a database.
const mostTerms = 16

// Words are the distinct words of a text in one line, for a database to compare with patterns.
func Words(text string) string {
	var b strings.Builder
	b.WriteByte(' ')
	seen := map[string]bool{}
	for _, w := range wordsOf(text) {
		if !seen[w] {
			seen[w] = true
			b.WriteString(w + " ")
		}
	}
	return b.String()
}

// Pattern is a word of a query as LIKE compares it with Words: what has the word itself, and what has a part of it that counts.
type Pattern struct{ Whole, Part string }

// Patterns are those of the first words of a query.
func (q Query) Patterns() (out []Pattern) {
	for _, t := range q.asked[:min(len(q.asked), mostTerms)] {
		p := Pattern{"% " + t.text + " %", "% " + t.text + "%"}
		if t.inside {
			p.Part = "%" + t.text + "%"
		}
		out = append(out, p)
	}
	return out
}

// wordsOf are the words of a text in lower case and without accents. An identifier such as fooBar is three: foobar, foo and bar.
func wordsOf(s string) (words []string) {
	if ascii(s) {
		return wordsOfASCII(s)
	}
	s = norm.NFKD.String(s)
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) }) {
		word = strings.Map(func(r rune) rune {
			if accent(r) {
				return -1
			}
			return r
		}, word)
		from, before, parts := 0, rune(0), 0
		for i, r := range word {
			if i > 0 && (unicode.IsUpper(r) && unicode.IsLower(before) || unspaced(r) != unspaced(before) && !unicode.IsMark(r)) {
				words = append(words, strings.ToLower(word[from:i]))
				from, parts = i, parts+1
			}
			if !unicode.IsMark(r) {
				before = r
			}
		}
		if parts > 0 {
			words = append(words, strings.ToLower(word[from:]))
		}
		words = append(words, strings.ToLower(word))
	}
	return words
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// wordsOfASCII is wordsOf for most texts, many times as fast.
func wordsOfASCII(s string) []string {
	words, folded := make([]string, 0, len(s)/4), strings.ToLower(s)
	for i := 0; i < len(s); i++ {
		start, from := i, i
		for ; i < len(s) && (letter(folded[i]) || '0' <= s[i] && s[i] <= '9'); i++ {
			if i > start && s[i] != folded[i] && letter(s[i-1]) && s[i-1] == folded[i-1] {
				words = append(words, folded[from:i])
				from = i
			}
		}
		if from > start {
			words = append(words, folded[from:i])
		}
		if i > start {
			words = append(words, folded[start:i])
		}
	}
	return words
}

// letter reports whether a byte is a small letter.
func letter(b byte) bool { return 'a' <= b && b <= 'z' }

// accent reports whether a mark is one that people leave out when they search.
func accent(r rune) bool { return r >= 0x300 && r <= 0x36f }

// unspaced reports whether a letter belongs to a script that puts no spaces between words.
func unspaced(r rune) bool {
	return r >= 0xe00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) || r == 'ー'
}

// term is something to look for. One of an unspaced script is found anywhere in a word, any other at its beginning.
type term struct {
	text   string
	inside bool
}

// askedOf are the terms of a query. A run of an unspaced script, whose words have no spaces between them, is looked for by its pairs of letters.
func askedOf(query string) (asked []term) {
	add := func(t term) {
		if !slices.Contains(asked, t) {
			asked = append(asked, t)
		}
	}
	for _, w := range wordsOf(query) {
		runes := []rune(w)
		switch {
		case !slices.ContainsFunc(runes, unspaced):
			add(term{w, false})
		case !slices.ContainsFunc(runes, func(r rune) bool { return !unspaced(r) && !unicode.IsMark(r) }):
			for i := range max(len(runes)-1, 1) {
				add(term{string(runes[i:min(i+2, len(runes))]), true})
			}
		}
	}
	return asked
}

func best(t term, words []string) (n int) {
	for _, has := range words {
		switch {
		case has == t.text:
			return 2
		case strings.HasPrefix(has, t.text), t.inside && strings.Contains(has, t.text):
			n = 1
		}
	}
	return n
}
