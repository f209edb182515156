"""System Structure and Parameterization (SSP 1.0 and 2.0): systems of FMUs in, systems of FMUs out.

package     unpacks safely, and reads all files of an SSP into the plain data of `model`
wiring      which variable each input follows, through all levels of nested systems
parameters  which values the bindings give to which variables
importing   a scenario from these
exporting   a scenario of FMUs as an SSP
"""
