package screen

import (
	"math"
	"strconv"
)

const maxParams = 32 // and as many subparameters; further ones are dropped

// params are the numbers of a control sequence. A missing number is 0, a missing subparameter is -1.
type params struct {
	val  [maxParams]int32
	n    int
	sub  [maxParams]int32
	nsub int
	from [maxParams]uint8 // where the subparameters of a parameter begin; only with nsub > 0
	to   [maxParams]uint8

	full    bool // further digits belong to a dropped parameter
	fullSub bool
	inSub   bool // the next digit belongs to a subparameter
}

func (p *params) reset() {
	p.val[0], p.n, p.nsub = 0, 1, 0
	p.from[0], p.to[0] = 0, 0
	p.full, p.fullSub, p.inSub = false, false, false
}

// add takes a digit, semicolon or colon.
func (p *params) add(c byte) {
	switch c {
	case ';':
		p.inSub = false
		if p.n == maxParams {
			p.full = true
			return
		}
		p.val[p.n] = 0
		p.from[p.n], p.to[p.n] = uint8(p.nsub), uint8(p.nsub)
		p.n++
	case ':':
		p.inSub = true
		if p.full || p.nsub == maxParams {
			p.fullSub = true
			return
		}
		p.sub[p.nsub] = -1
		p.nsub++
		p.to[p.n-1]++
	default:
		v := &p.val[p.n-1]
		if p.inSub {
			if p.fullSub || p.nsub == 0 {
				return
			}
			v = &p.sub[p.nsub-1]
		}
		if p.full {
			return
		}
		d := int64(c - '0')
		if *v >= 0 {
			d += int64(*v) * 10
		}
		*v = int32(min(d, math.MaxInt32))
	}
}

// count returns parameter 0 as a count: at least 1.
func (p *params) count() int { return max(1, int(p.val[0])) }

// subs returns the subparameters of parameter i.
func (p *params) subs(i int) []int32 {
	if p.nsub == 0 {
		return nil
	}
	return p.sub[p.from[i]:p.to[i]]
}

// append appends the parameters as they were written, as far as they matter to what follows.
func (p *params) append(b []byte) []byte {
	for i := range p.n {
		if i > 0 {
			b = append(b, ';')
		}
		b = strconv.AppendInt(b, int64(p.val[i]), 10)
		for _, v := range p.subs(i) {
			b = append(b, ':')
			if v >= 0 {
				b = strconv.AppendInt(b, int64(v), 10)
			}
		}
	}
	if p.full {
		b = append(b, ';')
	}
	if p.fullSub {
		b = append(b, ':')
	}
	return b
}
