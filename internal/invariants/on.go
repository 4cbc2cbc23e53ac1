//go:build invariants || race

package invariants

// Enabled says whether invariants are checked in this build.
const Enabled = true
