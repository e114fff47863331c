package executors

import "errors"

// goneError says why a sandbox is gone, in a sentence for people.
type goneError struct{ words string }

// GoneBecause returns an ErrGone with a sentence that tells people why.
func GoneBecause(words string) error { return &goneError{words} }

func (e *goneError) Error() string        { return "sandbox is gone: " + e.words }
func (e *goneError) Is(target error) bool { return target == ErrGone }

// WhyGone returns the sentence of a GoneBecause in err, or otherwise.
func WhyGone(err error, otherwise string) string {
	if g, ok := errors.AsType[*goneError](err); ok {
		return g.words
	}
	return otherwise
}
