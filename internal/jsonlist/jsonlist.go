// Package jsonlist reads lists from programs that are not trusted. A list of empty objects takes many times the memory of its text: of
// one that is too long, only the beginning is read. It has no state.
package jsonlist

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Max is how many elements of a List are read. A list of this length may have been longer.
const Max = 20_000

// List is a list of at most Max elements.
type List[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (l *List[T]) UnmarshalJSON(raw []byte) (err error) {
	*l, err = Read[T](raw, Max)
	return err
}

// Read reads the first elements of a list, at most most of them. The rest is not looked at. null is a list without elements.
func Read[T any](raw []byte, most int) ([]T, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	switch start, err := d.Token(); {
	case err != nil:
		return nil, err
	case start == nil:
		return nil, nil
	case start != json.Delim('['):
		return nil, fmt.Errorf("a list was expected, and not %.20q", fmt.Sprint(start))
	}
	out := []T{}
	for len(out) < most && d.More() {
		var v T
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}
