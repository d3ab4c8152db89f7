// SPDX-License-Identifier: MIT
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"sync"
)

func main() {
	var group sync.WaitGroup
	squares := make([]int, 50)
	for i := range squares {
		group.Add(1)
		go func(i int) {
			squares[i] = i * i
			group.Done()
		}(i)
	}
	group.Wait()
	fmt.Println(squares)
	output, _ := exec.Command("sh", "-c", "echo sub; seq 2").Output()
	fmt.Print(string(output))
	bytes, _ := os.ReadFile("squares.go")
	fmt.Printf("%x\n", sha256.Sum256(bytes))
	os.Exit(8)
}
