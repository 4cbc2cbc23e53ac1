package main

func Example() {
	main()
	// Output:
	// account-0 20
	// account-1 25
}
