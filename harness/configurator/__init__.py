"""Algorithm configuration: which settings of a program solve a set of instances fastest?"""
